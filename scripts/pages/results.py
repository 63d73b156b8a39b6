"""Who stands where as a table, to be worked with elsewhere: each board as CSV, all of them as CSV and as Parquet.

    <task>/<gpu>/board.csv     one board
    results.csv                all boards, one below the other
    results.parquet            the same, with types

Parquet by arro3, the Rust library's face for Python: a fifth of pyarrow's size, and publishing installs it each time.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from arro3.core import Array, DataType, Table
from arro3.io import write_parquet

from scripts.pages.summary import BoardSummary, Place
from scripts.pages.words import iso
from scripts.text import plain


@dataclass(frozen=True)
class _Column:
    name: str
    kind: DataType
    of: Callable[[Place], Any]


_WHOLE, _REAL, _TEXT, _TIME = DataType.int64(), DataType.float64(), DataType.utf8(), DataType.timestamp("us", tz="UTC")
_BOARD = (
    _Column("task", _TEXT, lambda place: place.board.task.name),
    _Column("gpu", _TEXT, lambda place: place.board.gpu),
)
_PLACE = (
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
)


def board_csv(summary: BoardSummary) -> str:
    return _csv(_PLACE, summary.places)


def results(boards: Sequence[BoardSummary]) -> Iterator[tuple[str, str | bytes]]:
    """All rows of all boards, best first on each."""
    places = [place for board in boards for place in board.places]
    yield "results.csv", _csv(_BOARD + _PLACE, places)
    yield "results.parquet", _parquet(_BOARD + _PLACE, places)


def _csv(columns: Sequence[_Column], places: Iterable[Place]) -> str:
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(column.name for column in columns)
    for place in places:
        table.writerow(_told(column.kind, column.of(place)) for column in columns)
    return out.getvalue()


def _told(kind: DataType, value: Any) -> Any:
    """A value as a spreadsheet should read it: what begins like a formula gets an apostrophe before it."""
    if kind == _TIME:
        return iso(value)
    return f"'{value}" if kind == _TEXT and value[:1] in ("=", "+", "-", "@", "\t") else value


def _parquet(columns: Sequence[_Column], places: Sequence[Place]) -> bytes:
    table = Table.from_pydict({one.name: _array(one.kind, [one.of(place) for place in places]) for one in columns})
    out = io.BytesIO()
    write_parquet(table, out, compression="snappy")  # The one that every reader knows.
    return out.getvalue()


def _array(kind: DataType, values: Sequence[Any]) -> Array:
    if kind == _TIME:
        return Array([round(at.timestamp() * 1e6) for at in values], DataType.int64()).cast(kind)
    return Array(values, kind)
