"""Standings, records and judgements as tables, in CSV and Parquet.

    <task>/<gpu>/board.csv               one board
    results.csv, results.parquet         all boards; Parquet has types
    cases.csv, cases.parquet             their times case by case; task, gpu and login identify the row
    records.csv, records.parquet         every record, including earlier editions
    judgements.csv, judgements.parquet   every ranked judgement of the ledger, including superseded files

Times are in microseconds; gaps, gains and limits are shares.  Each board's process makes its own rows of the table of
judgements while it has them in memory.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from harness.records.judgement import Judgement
from harness.records.stats import Interval
from scripts.common.text import plain
from scripts.pages.parts.summary import BoardSummary, Mark, Place
from scripts.pages.parts.tables import (
    FLAG,
    REAL,
    TEXT,
    TIME,
    WHOLE,
    TableColumn,
    TableRow,
    attributes,
    both_forms,
    rows_of,
    to_csv,
)
from scripts.pages.parts.taken_out import TakenOut
from scripts.standings.eligibility import shape
from scripts.standings.standings import Standings


@dataclass(frozen=True)
class _PublishedCase:
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


SCORE: tuple[TableColumn[Any], ...] = (
    TableColumn("score_us", REAL, lambda one: one.score_us and one.score_us.value),
    TableColumn("low_us", REAL, lambda one: one.score_us and one.score_us.low),
    TableColumn("high_us", REAL, lambda one: one.score_us and one.score_us.high),
)
"""Columns for anything with a score, or None."""
_BOARD = (
    TableColumn("task", TEXT, attrgetter("board.task.name")),
    TableColumn("gpu", TEXT, attrgetter("board.gpu")),
)
"""Columns for anything on a board."""


_PLACE: tuple[TableColumn[Any], ...] = (
    *attributes(rank=WHOLE, login=TEXT),
    *SCORE,
    *attributes(gap=REAL, limit=REAL),
    TableColumn("language", TEXT, lambda place: plain(place.language)),
    *attributes(lines=WHOLE, first_at=TIME, digest=TEXT, band=WHOLE, claim=TEXT, unwalled=FLAG),
    *attributes(provisional=FLAG, unmerged=FLAG, pull_request=WHOLE),
    TableColumn("note", TEXT, lambda place: place.facts["note"]),
)
_CASES: tuple[TableColumn[_PublishedCase], ...] = (
    TableColumn("task", TEXT, attrgetter("place.board.task.name")),
    TableColumn("gpu", TEXT, attrgetter("place.board.gpu")),
    TableColumn("login", TEXT, attrgetter("place.login")),
    TableColumn("case", WHOLE, attrgetter("number")),
    TableColumn("params", TEXT, lambda case: json.dumps(shape(case.facts["params"]))),
    TableColumn("time_us", REAL, lambda case: case.facts["time_us"]["value"]),
    TableColumn("low_us", REAL, lambda case: case.facts["time_us"]["low"]),
    TableColumn("high_us", REAL, lambda case: case.facts["time_us"]["high"]),
    TableColumn("ratio", REAL, lambda case: case.facts["ratio"] and case.facts["ratio"]["value"]),
)
_RECORDS: tuple[TableColumn[Any], ...] = (
    *_BOARD,
    TableColumn("edition", TEXT, attrgetter("board.edition")),
    *attributes(at=TIME, login=TEXT),
    *SCORE,
    *attributes(gain=REAL),
    TableColumn("over", TEXT, lambda mark: mark.over or None),
    *attributes(by_duel=FLAG),
    TableColumn("language", TEXT, lambda mark: plain(mark.language)),
    *attributes(digest=TEXT, pull_request=WHOLE),
)
_JUDGEMENTS: tuple[TableColumn[Any], ...] = (
    *attributes("judgement", task=TEXT, gpu=TEXT, edition=TEXT, finished_at=TIME),
    *attributes("judgement.submission", login=TEXT),
    *attributes("judgement", verdict=TEXT),
    *attributes(counts=FLAG, taken_out=TEXT),
    *SCORE,
    TableColumn("language", TEXT, lambda one: plain(one.judgement.submission.language)),
    *attributes("judgement.submission", lines=WHOLE),
    *attributes("judgement", claim=TEXT),
    *attributes("judgement.submission", digest=TEXT, pull_request=WHOLE),
    *attributes(path=TEXT),
)


def board_csv(summary: BoardSummary) -> str:
    return to_csv(_PLACE, rows_of(_PLACE, summary.places))


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
    return rows_of(_JUDGEMENTS, judged)


def results(
    boards: Sequence[BoardSummary], former: Sequence[Mark], judged: Sequence[TableRow]
) -> Iterator[tuple[str, str | bytes]]:
    """All rows of all boards, best first on each board; their cases; all records; all judgements.

    Args:
        former: the records of earlier editions.
        judged: the rows of all boards' judgements.
    """
    places = [place for board in boards for place in board.places]
    yield from both_forms("results", _BOARD + _PLACE, rows_of(_BOARD + _PLACE, places))
    cases = [
        _PublishedCase(place, *numbered) for place in places for numbered in enumerate(place.facts["cases"], start=1)
    ]
    yield from both_forms("cases", _CASES, rows_of(_CASES, cases))
    marks = sorted((*former, *(mark for board in boards for mark in board.marks)), key=lambda mark: mark.at)
    yield from both_forms("records", _RECORDS, rows_of(_RECORDS, marks))
    yield from both_forms("judgements", _JUDGEMENTS, judged)
