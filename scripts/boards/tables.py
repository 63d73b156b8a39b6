"""Boards as tables of 80 columns, with the notes below them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group
from rich.table import Table
from rich.text import Text

from harness.records.judgement import Claim
from harness.records.stats import PROVISIONAL, Interval, tied
from scripts.boards.board_facts import BoardFacts, RecordFacts, RowFacts
from scripts.common.terminal import case_table, cell, table
from scripts.common.text import (
    format_error,
    format_gap,
    format_interval,
    format_limit,
    format_speedup,
    format_us,
    in_words,
    plain,
)
from scripts.ledger.moderation import REMOVED


def standings_table(board: BoardFacts) -> Group:
    """All rows of a board."""
    has_limit = any(row.limit for row in board.rows)
    numbers = ("Time", "±", "Gap", *(["Of limit"] if has_limit else []))
    columns = ("Rank", "Author", *numbers, "Language", "Judged")
    made = table(f"{plain(board.title)} on {board.gpu}", *columns, right=("Rank", *numbers, "Judged"))
    made.columns[1].max_width, made.columns[-2].max_width = 24, 10
    for row in board.rows:
        made.add_row(
            _rank(board, row),
            Text(row.login, "bold" if row.champion else ""),
            format_us(row.score_us.value),
            format_error(row.score_us).removeprefix("±"),
            "" if row.rank == 1 else format_gap(row.gap),
            *([format_limit(row.limit) if row.limit else ""] if has_limit else []),
            cell(row.language),
            f"{row.judgements}×",
        )
    unranked = [
        (one.score_us.value, format_error(one.score_us).removeprefix("±"), plain(one.name)) for one in board.baselines
    ]
    if board.anchor_us:
        unranked.append((board.anchor_us, "", "anchor"))
    for us, error, name in sorted(unranked):
        gap = format_gap(us / board.rows[0].score_us.value - 1) if board.rows else ""
        made.add_row("", Text(name), format_us(us), error, gap, style="dim")
    return Group(made, *(Text(remark, "dim") for remark in _remarks(board)), *_benchmarks_of_first(board))


def _benchmarks_of_first(board: BoardFacts) -> Iterator[Table | str]:
    """The times of the first row with their throughput, case by case."""
    for row in board.rows[:1]:
        counted = [case for case in row.cases if case.throughput]
        if counted:
            yield ""
            lines = ((case.params, f"{format_us(case.time_us.value)} · {case.throughput}") for case in counted)
            yield case_table(f"Benchmarks of {row.login}", lines)


def lines_below(board: BoardFacts) -> Iterator[str]:
    """Notes, as on the board's page: whether it is judged, and which judgements were removed, newest first."""
    if not board.judged:
        yield "No machine judges this board now. Existing results stay."
    for one in board.taken_out:
        judged = f"{one.login}, judged {one.judged_at:%Y-%m-%d}"
        yield f"removed: {judged}: {REMOVED[one.action]} {one.at:%Y-%m-%d}. {plain(one.reason)}"


def _rank(board: BoardFacts, row: RowFacts) -> str:
    return f"{row.rank}{'=' if board.is_tied(row) else '~' if row.unproven else '?' if row.provisional else ' '}"


def _remarks(board: BoardFacts) -> Iterator[str]:
    rows = board.rows
    if board.tied_ranks:
        yield "= tied: the difference is below 1 % or the noise"
    if any(row.unproven for row in rows):
        yield "~ looks faster than the leader, but has not won their duel"
    if any(row.provisional for row in rows):
        yield f"? provisional: its ± is above {100 * PROVISIONAL:g} %, so it cannot take first place yet"
    yield from (f"{row.login}: {plain(row.note)}" for row in rows if row.note and not row.provisional)
    if self_timed := [row.login for row in rows if row.claim is Claim.SELF_TIMED and not row.unwalled]:
        yield f"self-timed, so not verified: {', '.join(self_timed)}"
    if unwalled := [row.login for row in rows if row.unwalled]:
        yield f"judged without a sandbox: {', '.join(unwalled)}"


def mine_table(boards: Sequence[BoardFacts], login: str) -> Table:
    """An author's row on each board, and the next row ahead."""
    made = table(f"Rows of {login}", "Board", "Rank", "Time", "Gap", "Next ahead", right=("Rank", "Time", "Gap"))
    for board in boards:
        if row := board.find_row(login):
            place = f"{row.rank}{'=' if board.is_tied(row) else ''} of {len(board.rows)}"
            gap = "" if row.rank == 1 else format_gap(row.gap)
            made.add_row(f"{board.task} / {board.gpu}", place, format_interval(row.score_us), gap, _ahead(board, row))
    return made


def _ahead(board: BoardFacts, row: RowFacts) -> str:
    """The author to beat, with the gap to them."""
    if row.note:
        return plain(row.note)
    ahead = board.ahead_of(row)
    if row.champion or not ahead:
        return "" if row.champion else f"tied with {board.rows[0].login}, who is first"
    return f"{ahead.login} ({format_gap(row.gap_to(ahead))})"


def history_table(board: BoardFacts, records: Sequence[RecordFacts]) -> Table:
    """Records, oldest first."""
    title = f"Records of {plain(board.title)} on {board.gpu}"
    made = table(title, "When", "Author", "Time", "Speedup", right=("Time", "Speedup"))
    for index, record in enumerate(records):
        without = "by forfeit" if index else "first entry"
        speedup = without if record.gain is None else format_speedup(1 - record.gain)
        made.add_row(f"{record.at:%Y-%m-%d %H:%M}", record.login, format_interval(record.score_us), speedup)
    return made


def compare_table(board: BoardFacts, one: RowFacts, other: RowFacts) -> Group:
    """Two rows of a board, case by case, with the speedup of the first over the second."""
    numbers = (one.login, other.login, "Speedup")
    made = table(f"{plain(board.title)} on {board.gpu}", "Case", *numbers, right=numbers)
    made.columns[0].max_width = 28
    for mine, theirs in zip(one.cases, other.cases, strict=False):
        is_tied = tied(mine.time_us, theirs.time_us)
        name = in_words(mine.params, leave_out="seed")  # each judging draws it at random
        made.add_row(cell(name), *_compared(mine.time_us, theirs.time_us, is_tied=is_tied))
    made.add_row(Text("score", "bold"), *_compared(one.score_us, other.score_us, is_tied=one.is_tied_with(other)))
    notes = (f"{row.login}: {plain(row.note)}" for row in (one, other) if row.note)
    return Group(made, *(Text(line, "dim") for line in (_verdict(one, other), *notes)))


def _compared(mine: Interval, theirs: Interval, *, is_tied: bool) -> tuple[str, str, str]:
    speedup = "tied" if is_tied else format_speedup(mine.value / theirs.value)
    return format_interval(mine), format_interval(theirs), speedup


def _verdict(one: RowFacts, other: RowFacts) -> str:
    first, second = sorted((one, other), key=lambda row: row.rank)
    ranks = f"{first.login} has rank {first.rank}, {second.login} rank {second.rank}"
    if not one.is_tied_with(other):
        return ranks
    has_duels = first.champion and first.claim is not Claim.SELF_TIMED
    why = "only a won duel takes first place" if has_duels else "the earlier entry ranks higher"
    return f"{ranks}; they are tied, and {why}"
