"""Tables in CSV and Parquet: columns with types, and how their values are written.

Parquet is written by arro3, which has a fifth of pyarrow's size: publishing installs it each time.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any, Generic, TypeVar

from arro3.core import Array, DataType, Table
from arro3.io import write_parquet

from scripts.common.text import spreadsheet_text

T = TypeVar("T")
TableRow = list[Any]
"""A value for each column of a table."""

WHOLE, REAL, TEXT, TIME = DataType.int64(), DataType.float64(), DataType.utf8(), DataType.timestamp("us", tz="UTC")
FLAG = DataType.bool()


@dataclass(frozen=True)
class TableColumn(Generic[T]):
    name: str
    kind: DataType
    of: Callable[[T], Any]


def attributes(of: str = "", **kinds: DataType) -> Iterator[TableColumn[Any]]:
    """A column for each attribute of the row, or of its attribute `of`."""
    return (TableColumn(name, kind, attrgetter(f"{of}.{name}" if of else name)) for name, kind in kinds.items())


def rows_of(columns: Sequence[TableColumn[T]], items: Iterable[T]) -> list[TableRow]:
    return [[column.of(item) for column in columns] for item in items]


def both_forms(
    name: str, columns: Sequence[TableColumn[Any]], rows: Sequence[TableRow]
) -> Iterator[tuple[str, str | bytes]]:
    yield f"{name}.csv", to_csv(columns, rows)
    yield f"{name}.parquet", to_parquet(columns, rows)


def to_csv(columns: Sequence[TableColumn[Any]], rows: Iterable[TableRow]) -> str:
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(column.name for column in columns)
    for row in rows:
        table.writerow(_told(column.kind, value) for column, value in zip(columns, row, strict=True))
    return out.getvalue()


def _told(kind: DataType, value: Any) -> Any:
    if kind is TEXT:
        return value and spreadsheet_text(value)
    if kind is TIME:
        return moment(value)
    if kind is FLAG:
        return "true" if value else "false"
    return value


def moment(at: datetime) -> str:
    """A time in UTC to the microsecond, as in Parquet and in the ledger."""
    return at.astimezone(UTC).isoformat(timespec="microseconds")


def to_parquet(columns: Sequence[TableColumn[Any]], rows: Sequence[TableRow]) -> bytes:
    values = zip(*rows, strict=True) if rows else [()] * len(columns)
    arrays: dict[str, Any] = {one.name: _array(one.kind, column) for one, column in zip(columns, values, strict=True)}
    out = io.BytesIO()
    write_parquet(Table.from_pydict(arrays), out, compression="snappy")  # Every reader supports snappy.
    return out.getvalue()


def _array(kind: DataType, values: Sequence[Any]) -> Array:
    if kind is TIME:
        return Array([round(at.timestamp() * 1e6) for at in values], DataType.int64()).cast(kind)
    return Array(list(values), kind)
