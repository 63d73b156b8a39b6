"""The boards of a ledger, and the place of each judged file on them.

    ledger ─▶ judgements that count ─▶ each board's standings, made once ─▶ PlaceKind

A disqualified, held or withdrawn judgement does not count.
Reads the ledger's folder, and the clock to see whether a task is closed; no network.
"""

from __future__ import annotations

from datetime import UTC, datetime
from enum import Enum, auto
from functools import cache, partial
from pathlib import Path

from harness.records.errors import TaskError
from harness.records.judgement import Judgement
from harness.records.verdict import Verdict
from harness.task.task import Board
from scripts.competition.boards import as_it_ended
from scripts.competition.repository import require_task
from scripts.ledger.ledger import Ledger, RequestStatus
from scripts.ledger.moderation import Moderated, Moderation
from scripts.ledger.names import request_of_judgement
from scripts.standings.standings import Standings, standings


class PlaceKind(Enum):
    """`ROW`: the file makes its author's row on the board.  `BEHIND`: it improves nothing."""

    ROW = auto()
    BEHIND = auto()


class LedgerBoards:
    """The boards of a ledger; `root` holds the tasks."""

    def __init__(self, ledger: Ledger, root: Path) -> None:
        self._ledger, self._root = ledger, root
        moderated = Moderated.after(ledger.moderations())
        self._standings, self._as_it_ended = cache(self._make), cache(self._make_as_it_ended)
        self._judged = cache(partial(ledger.judgements, samples=False))
        self._removed = cache(lambda task, gpu: moderated.removed(self._judged(task, gpu).judgements))

    def of(self, board: Board) -> Standings:
        """A board's standings, of the judgements that count."""
        return self.find(board.task.name, board.gpu) or standings(board, ())

    def find(self, task: str, gpu: str) -> Standings | None:
        """A board's standings by its names; None if there is no such board."""
        return self._standings(task, gpu)

    def earlier(self, judgement: Judgement) -> tuple[Judgement, ...]:
        """The judgements of its author on its board that count, in ledger order."""
        login = judgement.submission.login.casefold()
        removed = self._removed(judgement.task, judgement.gpu)
        judged = self._judged(judgement.task, judgement.gpu).judgements
        own = (one for one in judged if one.submission.login.casefold() == login)
        return tuple(one for one in own if one.checksum not in removed)

    def request_of(self, judgement: Judgement) -> str:
        """The id of the request that led to a judgement of the ledger."""
        return request_of_judgement(self._judged(judgement.task, judgement.gpu).places[judgement.checksum])

    def hidden(self, judgement: Judgement) -> Moderation | None:
        """The decision that keeps a judgement from counting; None if it counts."""
        return self._removed(judgement.task, judgement.gpu).get(judgement.checksum)

    def place(self, status: RequestStatus) -> PlaceKind | None:
        """The place of a judged file; None if it is not accepted, a baseline, of another edition, or does not count."""
        ending = status.ending
        if not ending or ending.verdict is not Verdict.ACCEPTED:
            return None
        judgement = self._ledger.judgement_of(status.request)
        if not judgement or not judgement.is_rankable or judgement.baseline or self.hidden(judgement):
            return None
        table = self._as_it_ended(judgement.task, judgement.gpu)
        if not table or table.board.edition != judgement.edition:
            return None
        row = table.find_row(judgement.submission.login)
        is_row = row is not None and row.digest == judgement.submission.digest
        return PlaceKind.ROW if is_row else PlaceKind.BEHIND

    def _make(self, task: str, gpu: str) -> Standings | None:
        board = find_board(task, gpu, self._root)
        if not board:
            return None
        return standings(board, self._judged(task, gpu).judgements, self._removed(task, gpu))

    def _make_as_it_ended(self, task: str, gpu: str) -> Standings | None:
        """The standings with the timing method that a closed board had.  It decides places; no duel is due there."""
        table = self.find(task, gpu)
        if not table:
            return None
        judgements = self._judged(task, gpu).judgements
        board = as_it_ended(table.board, judgements, datetime.now(UTC), is_judged=True)
        return table if board is table.board else standings(board, judgements, self._removed(task, gpu))


def find_board(task: str, gpu: str, root: Path) -> Board | None:
    """A board of `main`; None if the task or its board no longer exists."""
    try:
        found = require_task(task, root / "tasks")
    except TaskError:
        return None
    return found.board(gpu) if gpu in found.gpus else None
