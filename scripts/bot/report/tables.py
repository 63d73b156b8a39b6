"""What judged requests have come to: each one's judgement, and its file's place on the board as it stands now.

    ledger ─▶ judgements that count (not disqualified, not held back) ─▶ standings of each board, made once ─▶ Place

Pure but for reading the ledger's folder: neither network nor clock.
"""

from __future__ import annotations

from enum import Enum, auto
from functools import cache
from pathlib import Path

from harness.records.errors import TaskError
from harness.records.judgement import Judgement
from harness.records.verdict import Verdict
from harness.task.task import Board
from scripts.competition.repository import require_task
from scripts.ledger.ledger import Ledger, RequestStatus
from scripts.ledger.moderation import Moderated, Moderation
from scripts.ledger.request import Request
from scripts.standings.standings import Standings, standings


class PlaceKind(Enum):
    """`ROW`: its file is what its author stands on the board with.  `BEHIND`: it improves nothing."""

    ROW = auto()
    BEHIND = auto()


class Tables:
    """A ledger's boards; `root` holds the tasks."""

    def __init__(self, ledger: Ledger, root: Path) -> None:
        self._ledger, self._root = ledger, root
        self._moderated = Moderated.after(ledger.moderations())
        self._standings = cache(self._make)
        self._counted = cache(self._read)

    def of(self, board: Board) -> Standings:
        """A board's standings, without what was disqualified or is held back."""
        return self.find(board.task.name, board.gpu) or standings(board, ())

    def find(self, task: str, gpu: str) -> Standings | None:
        """A board's standings by its names; None where there is no such board."""
        return self._standings(task, gpu)

    def earlier(self, judgement: Judgement) -> tuple[Judgement, ...]:
        """All that its author was judged on its board, in ledger order, without what does not count."""
        login = judgement.submission.login.casefold()
        counted = self._counted(judgement.task, judgement.gpu)
        return tuple(one for one in counted if one.submission.login.casefold() == login)

    def hidden(self, judgement: Judgement) -> Moderation | None:
        """The decision by which a judgement does not count; None if it does."""
        now = self._moderated
        return now.disqualified.get(judgement.checksum) or now.held.get(judgement.checksum)

    def place(self, status: RequestStatus) -> PlaceKind | None:
        """Where a judged file stands; None if it is not accepted, not ranked, held back, or of another edition."""
        ending = status.ending
        if not ending or ending.verdict is not Verdict.ACCEPTED:
            return None
        judgement = self._ledger.judgement_of(status.request)
        if not judgement or not judgement.is_rankable or self._moderated.hides(judgement):
            return None
        table = self.find(judgement.task, judgement.gpu)
        if not table or table.board.edition != judgement.edition:
            return None
        row = table.find_row(judgement.submission.login)
        is_row = row is not None and row.digest == judgement.submission.digest
        return PlaceKind.ROW if is_row else PlaceKind.BEHIND

    def _make(self, task: str, gpu: str) -> Standings | None:
        board = find_board(task, gpu, self._root)
        if not board:
            return None
        return standings(board, self._counted(task, gpu))

    def _read(self, task: str, gpu: str) -> list[Judgement]:
        return self._moderated.counted(self._ledger.judgements(task, gpu).judgements)


def find_board(task: str, gpu: str, root: Path) -> Board | None:
    """A board of `main`; None where the task, or its board, is there no more."""
    try:
        found = require_task(task, root / "tasks")
    except TaskError:
        return None
    return found.board(gpu) if gpu in found.gpus else None


def board_of(request: Request, root: Path) -> Board | None:
    return find_board(request.task, request.gpu, root)
