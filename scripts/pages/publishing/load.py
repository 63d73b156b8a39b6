"""Read the ledger's boards, one at a time, without the judgements that maintainers removed.

ledger ─▶ boards_of: each board's files, unread ─▶ ranked: its judgements ─▶ Standings
       └▶ unusable files ─▶ faults, for the build's report and the landing page
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from harness.records.judgement import Judgement
from harness.task.task import METHOD, Board, Task
from scripts.competition.boards import as_it_ended
from scripts.ledger.ledger import Ledger, LedgerContents, LedgerFault
from scripts.ledger.moderation import Moderated
from scripts.pages.edition import Edition, editions_of
from scripts.pages.machines import Reading, readings_of
from scripts.pages.parts.results import judged_rows
from scripts.pages.parts.tables import TableRow
from scripts.pages.parts.taken_out import TakenOut, taken_out_of
from scripts.pages.parts.words import count
from scripts.pages.submission import MOST_CASES
from scripts.standings.standings import Standings, standings

MANY_CASES = 1000


@dataclass(frozen=True, kw_only=True)
class BoardFiles:
    """A board and the paths of its judgements in the ledger."""

    board: Board
    paths: tuple[Path, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Ranked:
    """A board's standings, now and in earlier editions, its judgements, removals, machine readings, faults and notes.

    No judgement in the standings has a date in the future: such dates are replaced with the time of the build.
    `claimed` has the original judgements, `places` the ledger's files; both are keyed by checksum.
    """

    table: Standings
    editions: tuple[Edition, ...]
    places: Mapping[str, Path]
    claimed: Mapping[str, Judgement]
    judged: list[TableRow]
    taken_out: tuple[TakenOut, ...]
    readings: list[Reading]
    faults: tuple[LedgerFault, ...]
    notes: tuple[str, ...]


def boards_of(tasks: Sequence[Task], ledger: Ledger, faults: list[LedgerFault]) -> list[BoardFiles]:
    """Every board of the tasks, in their order.  Files of unknown boards are added to `faults`."""
    boards = [board for task in tasks for board in task.boards]
    known = {(board.task.name, board.gpu) for board in boards}
    paths_of: dict[tuple[str, ...], tuple[Path, ...]] = {}
    for place, paths in ledger.files_by_board(faults):
        if place in known:
            paths_of[place] = paths
        else:
            faults.extend(_strays(place, ledger.read_judgements(paths)))
    return [BoardFiles(board=board, paths=paths_of.get((board.task.name, board.gpu), ())) for board in boards]


def ranked(
    files: BoardFiles,
    ledger: Ledger,
    moderated: Moderated,
    *,
    judges: Callable[[Board], bool],
    allow_unwalled: bool,
    now: datetime,
) -> Ranked:
    """Read a board's judgements and rank those that count.

    Args:
        judges: whether a machine judges a board now; without one, no duel is due.
        now: the time of the build; a judgement with a later date is noted, and shown with this one.
    """
    contents = ledger.read_judgements(files.paths)
    claimed = {one.checksum: one for one in contents.judgements if one.finished_at > now}
    judgements = [
        one.model_copy(update={"finished_at": now}) if one.checksum in claimed else one for one in contents.judgements
    ]
    removed = moderated.removed(judgements)
    shown = [one for one in judgements if one.checksum not in removed]
    is_judged = judges(files.board)
    board = as_it_ended(files.board, judgements, now, is_judged=is_judged)
    is_over = not is_judged or board.method != METHOD
    table = standings(board, judgements, removed, allow_unwalled=allow_unwalled, is_over=is_over)
    taken_out = taken_out_of(judgements, moderated)
    editions = editions_of(table, judgements, removed, allow_unwalled=allow_unwalled)
    return Ranked(
        table=table,
        editions=editions,
        places=contents.places,
        claimed=claimed,
        judged=judged_rows(judgements, [table, *(one.table for one in editions)], contents.places, taken_out),
        taken_out=taken_out,
        readings=readings_of(table, shown),
        faults=contents.faults,
        notes=tuple(_notes(shown, claimed)),
    )


def notes_of_all(tasks: Sequence[Task], files: Sequence[BoardFiles], faults: Sequence[LedgerFault]) -> Iterator[str]:
    """Lines about missing things that are no errors."""
    if not faults and not any(one.paths for one in files):
        yield "the ledger has no judgements; all boards are empty"
    for task in tasks:
        if not task.description.strip():
            yield f"{task.name} has no description; its pages show only the reference"


def _notes(judgements: Sequence[Judgement], claimed: Mapping[str, Judgement]) -> Iterator[str]:
    """Lines about odd judgements that count anyway."""
    for one in judgements:
        whose = f"{one.task} on {one.gpu}: {one.submission.login}'s judgement"
        if one.checksum in claimed:
            at = f"{claimed[one.checksum].finished_at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
            yield f"{whose} is from the future ({at}) and is shown with today's date; was its machine's clock wrong?"
        if len(one.cases) > MANY_CASES:
            yield f"{whose} has {len(one.cases):,} cases; its page lists the first {MOST_CASES}"


def _strays(place: tuple[str, ...], contents: LedgerContents) -> Iterator[LedgerFault]:
    """Report judgements of a board that no task has: the ledger keeps them, no page shows them."""
    yield from contents.faults
    if contents.judgements:
        found = count(len(contents.judgements), "judgement is", "judgements are")
        yield LedgerFault(path=Path("judgements", *place), reason=f"no task has this board; {found} not shown")
