"""Collect the news of a whole competition from its ledger and its tasks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from harness.records.fields import Mode
from harness.records.judgement import Judgement
from harness.task.task import METHOD, Board, Task
from scripts.announce.board_news import results_of
from scripts.announce.milestones import final_of, notices_of
from scripts.announce.news import News, PodiumPlace, Standing
from scripts.competition.boards import as_it_ended
from scripts.ledger.announced import Seen
from scripts.ledger.ledger import Ledger
from scripts.ledger.moderation import Moderated, Moderation
from scripts.standings.standings import standings


def gather(
    tasks: Sequence[Task], ledger: Ledger, seen: Sequence[Seen], now: datetime, gpus: Collection[str]
) -> list[News]:
    """All news ever, oldest first.  Only one board's judgements are in memory at a time.

    Args:
        tasks: with the boards that the site shows.
        seen: in order of time, including those that this run has added.
        gpus: the GPUs with a machine.
    """
    decisions = Moderated.after(ledger.moderations())
    boards: dict[tuple[str, ...], Board] = {
        (board.task.name, board.gpu): board for task in tasks for board in task.boards
    }
    found: list[News] = []
    ends: defaultdict[str, dict[str, Standing]] = defaultdict(dict)
    for place, paths in ledger.files_by_board([]):
        if board := boards.pop(place, None):
            judgements = ledger.read_judgements(paths, samples=False).judgements
            removed = decisions.removed(judgements)
            is_judged = board.gpu in gpus
            board = as_it_ended(board, judgements, now, is_judged=is_judged)
            found += results_of(board, judgements, removed, decisions.absences)
            is_judged = is_judged and board.method == METHOD
            ends[board.task.name][board.gpu] = _standing_of(board, judgements, removed, now, is_judged=is_judged)
    for board in boards.values():
        ends[board.task.name][board.gpu] = Standing(gpu=board.gpu, podium=(), entries=0)
    judging = {one.request.task for one in ledger.requests() if one.is_open and one.request.mode is Mode.RANKED}
    for task in tasks:
        found += notices_of(task, seen, gpus)
        if final := final_of(task, ends[task.name], is_judging=task.name in judging, now=now):
            found.append(final)
    return sorted(found, key=lambda news: (news.at, news.key))


def _standing_of(
    board: Board,
    judgements: Sequence[Judgement],
    removed: Mapping[str, Moderation],
    now: datetime,
    *,
    is_judged: bool,
) -> Standing:
    """A board's final standing; empty while the board is open.  Provisional rows are on no podium."""
    deadline = board.task.deadline
    is_closed = deadline is not None and deadline <= now
    rows = standings(board, judgements, removed, is_over=not is_judged).rows if is_closed else ()
    settled = [row for row in rows if not row.provisional]
    return Standing(gpu=board.gpu, podium=tuple(map(PodiumPlace.of, settled[:3])), entries=len(rows))
