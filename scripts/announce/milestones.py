"""What happens to tasks: they come, they get boards, they close, they change.  Pure.

Tasks have no time of their own, so the ledger keeps when each edition of a board was first seen.  A board is seen
once a machine judges it: so it is new when its machine comes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from harness.task.task import Task
from scripts.announce.news import FRESH, Final, Kind, Standing, TaskNews
from scripts.announce.words import first_words
from scripts.competition.boards import offered
from scripts.ledger.announced import Seen

NOTICE = timedelta(hours=24)
"""So long before a deadline it is told."""

LATEST_FINAL = timedelta(hours=24)
"""So long after its deadline a task is waited for whose judgings have not all ended."""


def newly_seen(tasks: Iterable[Task], seen: Sequence[Seen], now: datetime, gpus: Collection[str]) -> Iterator[Seen]:
    """What the ledger should remember: boards with a machine whose edition is not the one that was seen last."""
    last = {(one.task, one.gpu): one.edition for one in seen}
    for board in (board for task in tasks for board in offered(task, gpus).boards):
        if last.get((board.task.name, board.gpu)) != board.edition:
            yield Seen(task=board.task.name, gpu=board.gpu, edition=board.edition, at=now)


def notices_of(task: Task, seen: Sequence[Seen], gpus: Collection[str]) -> Iterator[TaskNews]:
    """A task's news of all times but for results; `seen` in the order of their times.

    Args:
        gpus: those that have a machine.  Nobody is called to a board that has none any more.
    """
    ours = [one for one in seen if one.task == task.name]
    if ours:
        first = {one.gpu for one in ours if one.at == ours[0].at}
        yield _notice(task, Kind.NEW_TASK, ours[0].at, [gpu for gpu in task.gpus if gpu in first])
        yield from _new_boards(task, ours)
        yield from _editions(task, ours)
    if task.deadline:
        judged = offered(task, gpus).gpus
        notice = _notice(task, Kind.DEADLINE, task.deadline - NOTICE, judged, until=task.deadline)
        yield replace(notice, is_ready=bool(judged))


def _new_boards(task: Task, seen: Sequence[Seen]) -> Iterator[TaskNews]:
    """Boards that came after the task did; those that came at once are told at once."""
    firsts = {one.gpu: one.at for one in reversed(seen)}
    for at in sorted(set(firsts.values()) - {seen[0].at}):
        gpus = [gpu for gpu, first in firsts.items() if first == at]
        if set(gpus) & set(task.gpus):
            yield _notice(task, Kind.NEW_BOARD, at, gpus)


def _editions(task: Task, seen: Sequence[Seen]) -> Iterator[TaskNews]:
    """Boards that began anew; those that did so at once are told at once."""
    known: dict[str, str] = {}
    changed: defaultdict[datetime, list[str]] = defaultdict(list)
    for one in seen:
        if known.get(one.gpu, one.edition) != one.edition:
            changed[one.at].append(one.gpu)
        known[one.gpu] = one.edition
    for at, gpus in changed.items():
        if set(gpus) & set(task.gpus):
            yield _notice(task, Kind.EDITION, at, gpus)


def _notice(task: Task, kind: Kind, at: datetime, gpus: Iterable[str], *, until: datetime | None = None) -> TaskNews:
    # A new deadline is other news: it is in the key.
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
        blurb=first_words(task.description) if kind in (Kind.NEW_TASK, Kind.NEW_BOARD) else "",
    )


def final_of(task: Task, boards: Mapping[str, Standing], *, is_judging: bool, now: datetime) -> Final | None:
    """The end of a task, once its deadline has passed; ready when what was asked for before is judged.

    Args:
        boards: by GPU.
        is_judging: whether ranked judgings of this task have not ended.
    """
    if not task.deadline or now < task.deadline or not task.gpus:
        return None
    return Final(
        kind=Kind.CLOSED,
        key=f"{Kind.CLOSED}/{task.name}/{task.deadline.astimezone(UTC):%Y%m%dT%H%M%SZ}",
        task=task.name,
        title=task.title,
        at=task.deadline,
        until=task.deadline + FRESH,
        is_ready=not is_judging or now >= task.deadline + LATEST_FINAL,
        boards=tuple(boards[gpu] for gpu in task.gpus if gpu in boards),
    )
