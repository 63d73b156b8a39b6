"""Standings, records and judgements as tables, in CSV and Parquet.

    <task>/<gpu>/board.csv               one board
    results.csv, results.parquet         all boards; Parquet has types
    cases.csv, cases.parquet             their times case by case; task, gpu and login identify the row
    records.csv, records.parquet         every record, including earlier editions
    judgements.csv, judgements.parquet   every ranked judgement of the ledger, including superseded files

Times are in microseconds; gaps, gains and limits are shares.  Each board's process makes its own rows of the table of
judgements while it has them in memory.  Parquet is written by arro3, which has a fifth of pyarrow's size: publishing
installs it each time.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from arro3.core import Array, DataType, Table
from arro3.io import write_parquet

from harness.records.judgement import Judgement
from harness.records.stats import Interval
from scripts.common.text import plain
from scripts.pages.parts.summary import BoardSummary, Mark, Place
from scripts.pages.parts.taken_out import TakenOut
from scripts.pages.parts.words import iso
from scripts.standings.eligibility import shape
from scripts.standings.standings import Standings

T = TypeVar("T")
TableRow = list[Any]
"""A value for each column of a table."""


@dataclass(frozen=True)
class _Column(Generic[T]):
    name: str
    kind: DataType
    of: Callable[[T], Any]


@dataclass(frozen=True)
class _Case:
    """One benchmark of a row; `number` counts from 1."""

    place: Place
    number: int
    facts: Mapping[str, Any]


class _Judged(NamedTuple):
    """A judgement and its outcome; `score_us` is its own score, None if it does not rank in its edition."""

    judgement: Judgement
    score_us: Interval | None
    counts: bool
    taken_out: str | None
    path: str


_WHOLE, _REAL, _TEXT, _TIME = DataType.int64(), DataType.float64(), DataType.utf8(), DataType.timestamp("us", tz="UTC")
_FLAG = DataType.bool()
_LIKE_A_FORMULA = frozenset("=+-@\t")
_SCORE: tuple[_Column[Any], ...] = (
    _Column("score_us", _REAL, lambda one: one.score_us and one.score_us.value),
    _Column("low_us", _REAL, lambda one: one.score_us and one.score_us.low),
    _Column("high_us", _REAL, lambda one: one.score_us and one.score_us.high),
)
"""Columns for anything with a score, or None."""
_BOARD = (
    _Column("task", _TEXT, attrgetter("board.task.name")),
    _Column("gpu", _TEXT, attrgetter("board.gpu")),
)
"""Columns for anything on a board."""


def _attributes(of: str = "", **kinds: DataType) -> Iterator[_Column[Any]]:
    """A column for each attribute of the row, or of its attribute `of`."""
    return (_Column(name, kind, attrgetter(f"{of}.{name}" if of else name)) for name, kind in kinds.items())


_PLACE: tuple[_Column[Any], ...] = (
    *_attributes(rank=_WHOLE, login=_TEXT),
    *_SCORE,
    *_attributes(gap=_REAL, limit=_REAL),
    _Column("language", _TEXT, lambda place: plain(place.language)),
    *_attributes(lines=_WHOLE, first_at=_TIME, digest=_TEXT, band=_WHOLE, claim=_TEXT, unwalled=_FLAG),
    *_attributes(provisional=_FLAG, unmerged=_FLAG, pull_request=_WHOLE),
    _Column("note", _TEXT, lambda place: place.facts["note"]),
)
_CASES: tuple[_Column[_Case], ...] = (
    _Column("task", _TEXT, attrgetter("place.board.task.name")),
    _Column("gpu", _TEXT, attrgetter("place.board.gpu")),
    _Column("login", _TEXT, attrgetter("place.login")),
    _Column("case", _WHOLE, attrgetter("number")),
    _Column("params", _TEXT, lambda case: json.dumps(shape(case.facts["params"]))),
    _Column("time_us", _REAL, lambda case: case.facts["time_us"]["value"]),
    _Column("low_us", _REAL, lambda case: case.facts["time_us"]["low"]),
    _Column("high_us", _REAL, lambda case: case.facts["time_us"]["high"]),
    _Column("ratio", _REAL, lambda case: case.facts["ratio"] and case.facts["ratio"]["value"]),
)
_RECORDS: tuple[_Column[Any], ...] = (
    *_BOARD,
    _Column("edition", _TEXT, attrgetter("board.edition")),
    *_attributes(at=_TIME, login=_TEXT),
    *_SCORE,
    *_attributes(gain=_REAL),
    _Column("over", _TEXT, lambda mark: mark.over or None),
    *_attributes(by_duel=_FLAG),
    _Column("language", _TEXT, lambda mark: plain(mark.language)),
    *_attributes(digest=_TEXT, pull_request=_WHOLE),
)
_JUDGEMENTS: tuple[_Column[Any], ...] = (
    *_attributes("judgement", task=_TEXT, gpu=_TEXT, edition=_TEXT, finished_at=_TIME),
    *_attributes("judgement.submission", login=_TEXT),
    *_attributes("judgement", verdict=_TEXT),
    *_attributes(counts=_FLAG, taken_out=_TEXT),
    *_SCORE,
    _Column("language", _TEXT, lambda one: plain(one.judgement.submission.language)),
    *_attributes("judgement.submission", lines=_WHOLE),
    *_attributes("judgement", claim=_TEXT),
    *_attributes("judgement.submission", digest=_TEXT, pull_request=_WHOLE),
    *_attributes(path=_TEXT),
)


def board_csv(summary: BoardSummary) -> str:
    return _csv(_PLACE, _rows(_PLACE, summary.places))


def judged_rows(
    judgements: Sequence[Judgement],
    tables: Sequence[Standings],
    places: Mapping[str, Path],
    taken_out: Sequence[TakenOut],
) -> list[TableRow]:
    """A row for every judgement of a board, in ledger order.

    Args:
        tables: the board's standings, then those of its earlier editions.
        places: the ledger's files, by the checksums of their judgements.
    """
    scores = {checksum: score_us for table in tables for checksum, score_us in table.scores_us.items()}
    today = tables[0].scores_us
    actions = {one.judgement.checksum: str(one.action) for one in taken_out}
    judged = (
        _Judged(one, scores.get(key), key in today, actions.get(key), places[key].as_posix())
        for key, one in ((one.checksum, one) for one in judgements)
    )
    return _rows(_JUDGEMENTS, judged)


def results(
    boards: Sequence[BoardSummary], former: Sequence[Mark], judged: Sequence[TableRow]
) -> Iterator[tuple[str, str | bytes]]:
    """All rows of all boards, best first on each board; their cases; all records; all judgements.

    Args:
        former: the records of earlier editions.
        judged: the rows of all boards' judgements.
    """
    places = [place for board in boards for place in board.places]
    yield from _both("results", _BOARD + _PLACE, _rows(_BOARD + _PLACE, places))
    cases = [_Case(place, *numbered) for place in places for numbered in enumerate(place.facts["cases"], start=1)]
    yield from _both("cases", _CASES, _rows(_CASES, cases))
    marks = sorted((*former, *(mark for board in boards for mark in board.marks)), key=lambda mark: mark.at)
    yield from _both("records", _RECORDS, _rows(_RECORDS, marks))
    yield from _both("judgements", _JUDGEMENTS, judged)


def _rows(columns: Sequence[_Column[T]], items: Iterable[T]) -> list[TableRow]:
    return [[column.of(item) for column in columns] for item in items]


def _both(name: str, columns: Sequence[_Column[Any]], rows: Sequence[TableRow]) -> Iterator[tuple[str, str | bytes]]:
    yield f"{name}.csv", _csv(columns, rows)
    yield f"{name}.parquet", _parquet(columns, rows)


def _csv(columns: Sequence[_Column[Any]], rows: Iterable[TableRow]) -> str:
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(column.name for column in columns)
    for row in rows:
        table.writerow(_told(column.kind, value) for column, value in zip(columns, row, strict=True))
    return out.getvalue()


def _told(kind: DataType, value: Any) -> Any:
    """A value for a spreadsheet: text that looks like a formula gets an apostrophe in front."""
    if kind is _TEXT:
        return f"'{value}" if value and value[0] in _LIKE_A_FORMULA else value
    if kind is _TIME:
        return iso(value)
    if kind is _FLAG:
        return "true" if value else "false"
    return value


def _parquet(columns: Sequence[_Column[Any]], rows: Sequence[TableRow]) -> bytes:
    values = zip(*rows, strict=True) if rows else [()] * len(columns)
    arrays: dict[str, Any] = {one.name: _array(one.kind, column) for one, column in zip(columns, values, strict=True)}
    out = io.BytesIO()
    write_parquet(Table.from_pydict(arrays), out, compression="snappy")  # Every reader supports snappy.
    return out.getvalue()


def _array(kind: DataType, values: Sequence[Any]) -> Array:
    if kind is _TIME:
        return Array([round(at.timestamp() * 1e6) for at in values], DataType.int64()).cast(kind)
    return Array(list(values), kind)
