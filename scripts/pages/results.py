"""Who stands where as tables, to be worked with elsewhere: a row of a board each, and a row's benchmark each.

    <task>/<gpu>/board.csv         one board
    results.csv, results.parquet   all boards, one below the other; Parquet has types
    cases.csv, cases.parquet       their times case by case: task, gpu and login say of which row

Times are in microseconds, gaps and limits shares.  Parquet by arro3, the Rust library's face for Python: a fifth of
pyarrow's size, and publishing installs it each time.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from arro3.core import Array, DataType, Table
from arro3.io import write_parquet

from scripts.pages.summary import BoardSummary, Place
from scripts.pages.words import iso
from scripts.standings import shape
from scripts.text import plain

T = TypeVar("T")


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


_WHOLE, _REAL, _TEXT, _TIME = DataType.int64(), DataType.float64(), DataType.utf8(), DataType.timestamp("us", tz="UTC")
_FLAG = DataType.bool()
_BOARD: tuple[_Column[Place], ...] = (
    _Column("task", _TEXT, lambda place: place.board.task.name),
    _Column("gpu", _TEXT, lambda place: place.board.gpu),
)
_PLACE: tuple[_Column[Place], ...] = (
    _Column("rank", _WHOLE, lambda place: place.rank),
    _Column("login", _TEXT, lambda place: place.login),
    _Column("score_us", _REAL, lambda place: place.score_us.value),
    _Column("low_us", _REAL, lambda place: place.score_us.low),
    _Column("high_us", _REAL, lambda place: place.score_us.high),
    _Column("gap", _REAL, lambda place: place.gap),
    _Column("limit", _REAL, lambda place: place.limit),
    _Column("language", _TEXT, lambda place: plain(place.language)),
    _Column("lines", _WHOLE, lambda place: place.lines),
    _Column("first_at", _TIME, lambda place: place.first_at),
    _Column("digest", _TEXT, lambda place: place.digest),
    _Column("band", _WHOLE, lambda place: place.facts["band"]),
    _Column("claim", _TEXT, lambda place: str(place.facts["claim"])),
    _Column("unwalled", _FLAG, lambda place: place.unwalled),
    _Column("provisional", _FLAG, lambda place: place.provisional),
    _Column("pull_request", _WHOLE, lambda place: place.facts["pull_request"]),
    _Column("note", _TEXT, lambda place: place.facts["note"]),
)
_CASES: tuple[_Column[_Case], ...] = (
    _Column("task", _TEXT, lambda case: case.place.board.task.name),
    _Column("gpu", _TEXT, lambda case: case.place.board.gpu),
    _Column("login", _TEXT, lambda case: case.place.login),
    _Column("case", _WHOLE, lambda case: case.number),
    _Column("params", _TEXT, lambda case: json.dumps(shape(case.facts["params"]))),
    _Column("time_us", _REAL, lambda case: case.facts["time_us"]["value"]),
    _Column("low_us", _REAL, lambda case: case.facts["time_us"]["low"]),
    _Column("high_us", _REAL, lambda case: case.facts["time_us"]["high"]),
    _Column("ratio", _REAL, lambda case: case.facts["ratio"] and case.facts["ratio"]["value"]),
)


def board_csv(summary: BoardSummary) -> str:
    return _csv(_PLACE, summary.places)


def results(boards: Sequence[BoardSummary]) -> Iterator[tuple[str, str | bytes]]:
    """All rows of all boards, best first on each, and the cases of each."""
    places = [place for board in boards for place in board.places]
    yield "results.csv", _csv(_BOARD + _PLACE, places)
    yield "results.parquet", _parquet(_BOARD + _PLACE, places)
    cases = [_Case(place, *numbered) for place in places for numbered in enumerate(place.facts["cases"], start=1)]
    yield "cases.csv", _csv(_CASES, cases)
    yield "cases.parquet", _parquet(_CASES, cases)


def _csv(columns: Sequence[_Column[T]], rows: Iterable[T]) -> str:
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(column.name for column in columns)
    for row in rows:
        table.writerow(_told(column.kind, column.of(row)) for column in columns)
    return out.getvalue()


def _told(kind: DataType, value: Any) -> Any:
    """A value as a spreadsheet should read it: what begins like a formula gets an apostrophe before it."""
    if kind == _TIME:
        return iso(value)
    if kind == _FLAG:
        return "true" if value else "false"
    return f"'{value}" if kind == _TEXT and value[:1] in ("=", "+", "-", "@", "\t") else value


def _parquet(columns: Sequence[_Column[T]], rows: Sequence[T]) -> bytes:
    table = Table.from_pydict({one.name: _array(one.kind, [one.of(row) for row in rows]) for one in columns})
    out = io.BytesIO()
    write_parquet(table, out, compression="snappy")  # The one that every reader knows.
    return out.getvalue()


def _array(kind: DataType, values: Sequence[Any]) -> Array:
    if kind == _TIME:
        return Array([round(at.timestamp() * 1e6) for at in values], DataType.int64()).cast(kind)
    return Array(values, kind)
