"""The data set of a competition: its ranked submissions with their code and times, as Parquet and JSON Lines.

A line is a ranked judgement that counts, of its board's current edition or of an earlier one.  Left out are

    tasks that are still open      those whose deadline has not passed
    files that were never merged   their code is not in the repository
    authors who are in `without`   `dataset` in the settings
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from harness.records.judgement import CaseResult, Judgement
from harness.records.stats import Interval
from harness.task.task import Task
from scripts.common.text import plain
from scripts.competition.settings import DataSet
from scripts.ledger.ledger import Ledger, LedgerFault
from scripts.ledger.moderation import Moderated
from scripts.pages.edition import editions_of
from scripts.pages.parts.results import SCORE
from scripts.pages.parts.site import Sources
from scripts.pages.parts.tables import TEXT, TIME, TableColumn, TableRow, attributes, rows_of, to_parquet
from scripts.pages.parts.words import iso
from scripts.pages.publishing.load import BoardFiles, boards_of
from scripts.standings.standings import standings

NAME = "submissions"


class _Entry(NamedTuple):
    """A judgement, its score in its edition, and the judged code."""

    judgement: Judgement
    score_us: Interval
    code: str
    license: str

    @property
    def cases(self) -> str:
        return json.dumps([_case(case) for case in self.judgement.benchmarks], allow_nan=False)

    @property
    def software(self) -> str:
        return json.dumps(self.judgement.machine.versions)


_COLUMNS: tuple[TableColumn[_Entry], ...] = (
    *attributes("judgement", task=TEXT, gpu=TEXT, edition=TEXT, finished_at=TIME),
    *attributes("judgement.submission", login=TEXT, digest=TEXT),
    TableColumn("language", TEXT, lambda one: plain(one.judgement.submission.language)),
    *SCORE,
    *attributes("judgement", claim=TEXT),
    *attributes(cases=TEXT),
    *attributes("judgement.machine", device=TEXT),
    *attributes(software=TEXT, license=TEXT, code=TEXT),
)
_OBJECTS = ("cases", "software")
"""Columns that are JSON within Parquet's text."""


@dataclass(frozen=True, kw_only=True)
class DataSetReport:
    """`left_out` counts judgements, by the reason."""

    rows: int
    left_out: Counter[str]
    faults: tuple[LedgerFault, ...]


def write_dataset(
    tasks: Sequence[Task], ledger: Ledger, out: Path, *, sources: Sources, settings: DataSet, now: datetime
) -> DataSetReport:
    """Write `submissions.parquet` and `submissions.jsonl` to the folder `out`.

    Raises:
        LedgerError: the ledger's judgements cannot be read.
        OSError: the folder cannot be written.
    """
    ledger.require_judgements()
    decisions = ledger.moderations()
    moderated = Moderated.after(decisions)
    faults, left_out = [*decisions.faults], Counter[str]()
    entries: list[_Entry] = []
    for files in boards_of(tasks, ledger, faults):
        ends = files.board.task.deadline
        for judgement, score_us in _counted(files, ledger, moderated, faults):
            code = sources(judgement)
            if ends and ends > now:
                left_out["of tasks that are still open"] += 1
            elif judgement.submission.login.lower() in map(str.lower, settings.without):
                left_out["of authors who are left out"] += 1
            elif code is None:
                left_out["whose file was not merged"] += 1
            else:
                entries.append(_Entry(judgement, score_us, code, settings.license))
    rows = rows_of(_COLUMNS, entries)
    out.mkdir(parents=True, exist_ok=True)
    (out / f"{NAME}.parquet").write_bytes(to_parquet(_COLUMNS, rows))
    (out / f"{NAME}.jsonl").write_text("".join(map(_line, rows)), "utf-8")
    return DataSetReport(rows=len(rows), left_out=left_out, faults=tuple(faults))


def _counted(
    files: BoardFiles, ledger: Ledger, moderated: Moderated, faults: list[LedgerFault]
) -> Iterator[tuple[Judgement, Interval]]:
    """A board's judgements that have a score in their edition."""
    contents = ledger.read_judgements(files.paths)
    faults += contents.faults
    counted = moderated.counted(contents.judgements)
    table = standings(files.board, counted)
    tables = [table, *(edition.table for edition in editions_of(table, counted, allow_unwalled=False))]
    scores_us = {checksum: score_us for one in tables for checksum, score_us in one.scores_us.items()}
    for one in counted:
        if score_us := scores_us.get(one.checksum):
            yield one, score_us


def _case(case: CaseResult) -> dict[str, Any]:
    """A benchmark's times as measured, in microseconds; `ratio` to the anchor decides the rank."""
    timing = case.timing
    anchor = {"anchor_us": timing.anchor_us, "ratio": timing.ratio.model_dump()} if timing else {}
    return {"params": case.params, "time_us": case.time_us, **anchor}


def _line(row: TableRow) -> str:
    facts = {column.name: value for column, value in zip(_COLUMNS, row, strict=True)}
    facts |= {name: json.loads(facts[name]) for name in _OBJECTS} | {"finished_at": iso(facts["finished_at"])}
    return json.dumps(facts, allow_nan=False) + "\n"
