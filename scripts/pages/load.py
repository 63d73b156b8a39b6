"""The ledger's boards, one at a time: what there is to rank, without what maintainers took out.

ledger ─▶ a board's judgements ─▶ without the disqualified and the held back ─▶ Standings
       └▶ what could not be used ─▶ faults, for the build's report and the landing page
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from harness.errors import TaskError
from harness.task import Board, Task
from scripts.ledger.ledger import Ledger, LedgerContents, LedgerFault
from scripts.ledger.moderation import Moderated
from scripts.pages.edition import Edition, editions_of
from scripts.pages.words import count
from scripts.standings import Standings, standings

RESERVED = frozenset({"assets", "authors", "guides"})
"""Folders of the site's own: no task may bear their names."""


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
) -> Iterator[tuple[Standings, tuple[Edition, ...]]]:
    """Every board of the tasks, ranked, and how it stood in earlier editions; one is in memory at a time.

    What could not be used is added to `faults`.
    """
    hidden = _hidden(ledger)
    missing: dict[tuple[str, ...], Board] = {
        (board.task.name, board.gpu): board for task in tasks for board in task.boards
    }
    for place, contents in ledger.judgements_by_board():
        faults.extend(contents.faults)
        if board := missing.pop(place, None):
            shown = [one for one in contents.judgements if one.checksum not in hidden]
            table = standings(board, shown, allow_unwalled=allow_unwalled)
            yield table, editions_of(table, shown, allow_unwalled=allow_unwalled)
        elif contents.judgements:
            faults.append(_stray(place, contents))
    yield from ((standings(board, ()), ()) for board in missing.values())


def _hidden(ledger: Ledger) -> frozenset[str]:
    now = Moderated.after(ledger.moderations())
    return frozenset({*now.disqualified, *now.held})


def _stray(place: tuple[str, ...], contents: LedgerContents) -> LedgerFault:
    """Judgements of a board that no task has: kept in the ledger, shown nowhere, so said here."""
    found = count(len(contents.judgements), "judgement is", "judgements are")
    return LedgerFault(path=Path("judgements", *place), reason=f"no task has this board; {found} not shown")


def in_order(tasks: Sequence[Task]) -> dict[tuple[str, str], int]:
    """The place of each board among all, as the tasks name them."""
    boards: list[Board] = [board for task in tasks for board in task.boards]
    return {(board.task.name, board.gpu): index for index, board in enumerate(boards)}
