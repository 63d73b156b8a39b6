"""The ledger's boards, one at a time: what there is to rank, without what maintainers took out.

ledger ─▶ a board's judgements ─▶ without the disqualified and the held back ─▶ Standings
       └▶ what could not be used ─▶ faults, for the build's report and the landing page
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from harness.errors import TaskError
from harness.judgement import Judgement
from harness.task import Board, Task
from scripts.ledger.ledger import Ledger, LedgerContents, LedgerFault
from scripts.ledger.moderation import Action, Moderated
from scripts.pages.edition import Edition, editions_of
from scripts.pages.words import count
from scripts.standings import Standings, standings

RESERVED = frozenset({"assets", "authors", "guides"})
"""Folders of the site's own: no task may bear their names."""


@dataclass(frozen=True, kw_only=True)
class TakenOut:
    """A judgement that maintainers took out, and why.  `held`: for now, until it is looked at."""

    judgement: Judgement
    held: bool
    reason: str
    at: datetime

    @property
    def facts(self) -> dict[str, object]:
        submission = self.judgement.submission
        return {
            "login": submission.login,
            "digest": submission.digest,
            "pull_request": submission.pull_request,
            "judged_at": self.judgement.finished_at.isoformat(),
            "checksum": self.judgement.checksum,
            "action": Action.HOLD if self.held else Action.DISQUALIFY,
            "reason": self.reason,
            "at": self.at.isoformat(),
        }


def require_free_names(tasks: Sequence[Task]) -> None:
    """See that no task takes a folder of the site's own.

    Raises:
        TaskError: one does.
    """
    for task in tasks:
        if task.name in RESERVED:
            raise TaskError(f"{task.folder}: the site keeps a folder named '{task.name}' of its own; rename the task")


def boards_of(
    tasks: Sequence[Task], ledger: Ledger, faults: list[LedgerFault], *, allow_unwalled: bool
) -> Iterator[tuple[Standings, tuple[Edition, ...], tuple[TakenOut, ...]]]:
    """Every board of the tasks, how it stood in earlier editions, what was taken out; one is in memory at a time.

    What could not be used is added to `faults`.
    """
    moderated = Moderated.after(ledger.moderations())
    missing: dict[tuple[str, ...], Board] = {
        (board.task.name, board.gpu): board for task in tasks for board in task.boards
    }
    for place, contents in ledger.judgements_by_board():
        faults.extend(contents.faults)
        if board := missing.pop(place, None):
            shown = moderated.counted(contents.judgements)
            table = standings(board, shown, allow_unwalled=allow_unwalled)
            editions = editions_of(table, shown, allow_unwalled=allow_unwalled)
            yield table, editions, _taken_out(contents, moderated)
        elif contents.judgements:
            faults.append(_stray(place, contents))
    yield from ((standings(board, ()), (), ()) for board in missing.values())


def _taken_out(contents: LedgerContents, moderated: Moderated) -> tuple[TakenOut, ...]:
    """The newest first."""
    found = []
    for judgement in contents.judgements:
        out = moderated.disqualified.get(judgement.checksum)
        if decision := out or moderated.held.get(judgement.checksum):
            found.append(TakenOut(judgement=judgement, held=out is None, reason=decision.reason, at=decision.at))
    return tuple(sorted(found, key=lambda one: one.at, reverse=True))


def _stray(place: tuple[str, ...], contents: LedgerContents) -> LedgerFault:
    """Judgements of a board that no task has: kept in the ledger, shown nowhere, so said here."""
    found = count(len(contents.judgements), "judgement is", "judgements are")
    return LedgerFault(path=Path("judgements", *place), reason=f"no task has this board; {found} not shown")


def in_order(tasks: Sequence[Task]) -> dict[tuple[str, str], int]:
    """The place of each board among all, as the tasks name them."""
    boards: list[Board] = [board for task in tasks for board in task.boards]
    return {(board.task.name, board.gpu): index for index, board in enumerate(boards)}
