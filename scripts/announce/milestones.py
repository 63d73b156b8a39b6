"""News about tasks: new tasks, new boards, deadlines, new editions.  Pure.

Tasks have no dates, so the ledger records when each edition of a board was first seen.  A board counts as seen once a
machine judges it, so it is new when its machine is added.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from harness.task.task import Task
from scripts.announce.news import FRESH, Final, NewsKind, Standing, TaskNews
from scripts.announce.words import first_words
from scripts.competition.boards import offered
from scripts.ledger.announced import Seen

NOTICE = timedelta(hours=24)
"""A deadline is announced this long before it."""

LATEST_FINAL = timedelta(hours=24)
"""The final standings wait at most this long after the deadline for judgings that have not ended."""


def newly_seen(tasks: Iterable[Task], seen: Sequence[Seen], now: datetime, gpus: Collection[str]) -> Iterator[Seen]:
    """Records for the ledger: open boards with a machine, and with another edition than the last one seen."""
    last = {(one.task, one.gpu): one.edition for one in seen}
    open_tasks = (task for task in tasks if not task.deadline or now < task.deadline)
    for board in (board for task in open_tasks for board in offered(task, gpus).boards):
        if last.get((board.task.name, board.gpu)) != board.edition:
            yield Seen(task=board.task.name, gpu=board.gpu, edition=board.edition, at=now)


def notices_of(task: Task, seen: Sequence[Seen], gpus: Collection[str]) -> Iterator[TaskNews]:
    """All news about a task, without results; `seen` is in order of time.

    Args:
        gpus: the GPUs with a machine.  A deadline is not announced for boards without one.
    """
    ours = [one for one in seen if one.task == task.name]
    if ours:
        first = {one.gpu for one in ours if one.at == ours[0].at}
        yield _notice(task, NewsKind.NEW_TASK, ours[0].at, [gpu for gpu in task.gpus if gpu in first])
        yield from _new_boards(task, ours)
        yield from _editions(task, ours)
    if task.deadline and task.ranks:
        judged = offered(task, gpus).gpus
        notice = _notice(task, NewsKind.DEADLINE, task.deadline - NOTICE, judged, until=task.deadline)
        yield replace(notice, is_ready=bool(judged))


def _new_boards(task: Task, seen: Sequence[Seen]) -> Iterator[TaskNews]:
    """Boards added after the task; boards added together are announced together."""
    firsts = {one.gpu: one.at for one in reversed(seen)}
    for at in sorted(set(firsts.values()) - {seen[0].at}):
        gpus = [gpu for gpu, first in firsts.items() if first == at]
        if set(gpus) & set(task.gpus):
            yield _notice(task, NewsKind.NEW_BOARD, at, gpus)


def _editions(task: Task, seen: Sequence[Seen]) -> Iterator[TaskNews]:
    """Boards with a new edition; those of one moment are announced together."""
    known: dict[str, str] = {}
    changed: defaultdict[datetime, list[str]] = defaultdict(list)
    for one in seen:
        if known.get(one.gpu, one.edition) != one.edition:
            changed[one.at].append(one.gpu)
        known[one.gpu] = one.edition
    for at, gpus in changed.items():
        if set(gpus) & set(task.gpus):
            yield _notice(task, NewsKind.EDITION, at, gpus)


def _notice(
    task: Task, kind: NewsKind, at: datetime, gpus: Iterable[str], *, until: datetime | None = None
) -> TaskNews:
    # The key includes the deadline, so a new deadline is new news.
    time = until or at
    return TaskNews(
        kind=kind,
        key=f"{kind}/{task.name}/{time.astimezone(UTC):%Y%m%dT%H%M%SZ}",
        task=task.name,
        title=task.title,
        at=at,
        until=until or at + FRESH,
        gpus=tuple(gpu for gpu in task.gpus if gpu in set(gpus)),
        deadline=task.deadline,
        blurb=first_words(task.description) if kind in (NewsKind.NEW_TASK, NewsKind.NEW_BOARD) else "",
    )


def final_of(task: Task, boards: Mapping[str, Standing], *, is_judging: bool, now: datetime) -> Final | None:
    """The final standings of a task after its deadline; ready when all earlier requests are judged.

    A task that closes without an entry is no news: a new competition closes those of the template.

    Args:
        boards: by GPU.
        is_judging: whether ranked judgings of this task are still open.
    """
    if not (task.deadline and task.ranks and task.gpus) or now < task.deadline:
        return None
    if not any(board.entries for board in boards.values()):
        return None
    return Final(
        kind=NewsKind.CLOSED,
        key=f"{NewsKind.CLOSED}/{task.name}/{task.deadline.astimezone(UTC):%Y%m%dT%H%M%SZ}",
        task=task.name,
        title=task.title,
        at=task.deadline,
        until=task.deadline + FRESH,
        is_ready=not is_judging or now >= task.deadline + LATEST_FINAL,
        boards=tuple(boards[gpu] for gpu in task.gpus if gpu in boards),
    )
