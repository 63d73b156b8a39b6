"""The data set of a competition: its ranked submissions with their code and times, as Parquet and JSON Lines.

A line is a ranked judgement that counts, of its board's current edition or of an earlier one.  Left out are

    tasks with a deadline that has not passed
    baselines                                 they do not rank
    files that were never merged              their code is not in the repository
    files of which a judgement was removed    on any board, by a maintainer or its author
    authors who are in `without`              `dataset` in the settings; also under an account's other logins
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from harness.records.judgement import CaseResult, Judgement
from harness.records.stats import Interval
from harness.task.task import Task
from scripts.common.text import plain
from scripts.competition.settings import DataSet
from scripts.ledger.ledger import Ledger, LedgerError, LedgerFault
from scripts.ledger.moderation import Moderated
from scripts.pages.edition import editions_of
from scripts.pages.parts.results import SCORE
from scripts.pages.parts.site import ReadSource
from scripts.pages.parts.tables import TEXT, TIME, TableColumn, TableRow, attributes, moment, rows_of, to_parquet
from scripts.pages.parts.taken_out import taken_out_of
from scripts.pages.publishing.load import BoardFiles, boards_of
from scripts.standings.standings import standings

NAME = "ranked"


class _DatasetRow(NamedTuple):
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


_COLUMNS: tuple[TableColumn[_DatasetRow], ...] = (
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
    tasks: Sequence[Task], ledger: Ledger, out: Path, *, sources: ReadSource, settings: DataSet, now: datetime
) -> DataSetReport:
    """Write `ranked.parquet` and `ranked.jsonl` to the folder `out`.

    Raises:
        LedgerError: the ledger's judgements cannot be read, or a decision about one.
        OSError: the folder cannot be written.
    """
    ledger.require_judgements()
    decisions = ledger.moderations()
    if decisions.faults:
        raise LedgerError(f"nothing is written, as this decision cannot be read: {decisions.faults[0]}")
    moderated = Moderated.after(decisions)
    faults: list[LedgerFault] = []
    without = _Without({login.lower() for login in settings.without})
    boards = boards_of(tasks, ledger, faults)
    scored = [
        (files.board.task.deadline, *pair)
        for files in boards
        for pair in _read(files, ledger, moderated, faults, without)
    ]
    read = {(files.board.task.name, files.board.gpu) for files in boards}
    for place, paths in ledger.files_by_board([]):
        if place not in read:  # a board that a task no longer has
            without.add(ledger.read_judgements(paths).judgements, moderated)
    left_out, entries = Counter[str](), list[_DatasetRow]()
    for ends, judgement, score_us in scored:
        if ends and ends > now:
            left_out["of tasks that are still open"] += 1
        elif _login_of(judgement) in without.logins or _account_of(judgement) in without.accounts:
            left_out["of authors who are left out"] += 1
        elif _file_of(judgement) in without.files:
            left_out["of files that were removed from a board"] += 1
        elif (code := sources(judgement)) is None:
            left_out["whose file was not merged"] += 1
        else:
            entries.append(_DatasetRow(judgement, score_us, code, settings.license))
    rows = rows_of(_COLUMNS, entries)
    out.mkdir(parents=True, exist_ok=True)
    (out / f"{NAME}.parquet").write_bytes(to_parquet(_COLUMNS, rows))
    (out / f"{NAME}.jsonl").write_text("".join(map(_line, rows)), "utf-8")
    return DataSetReport(rows=len(rows), left_out=left_out, faults=tuple(faults))


@dataclass(frozen=True)
class _Without:
    """What is left out: authors by their logins and accounts, and files of which a judgement was removed."""

    logins: set[str]
    accounts: set[int | str] = field(default_factory=set)
    files: set[tuple[str, int | str, str]] = field(default_factory=set)

    def add(self, judgements: Sequence[Judgement], moderated: Moderated) -> None:
        self.accounts.update(_account_of(one) for one in judgements if _login_of(one) in self.logins)
        self.files.update(_file_of(one.judgement) for one in taken_out_of(judgements, moderated))


def _read(
    files: BoardFiles, ledger: Ledger, moderated: Moderated, faults: list[LedgerFault], without: _Without
) -> list[tuple[Judgement, Interval]]:
    """A board's judgements that have a score in their edition."""
    contents = ledger.read_judgements(files.paths)
    faults += contents.faults
    removed = moderated.removed(contents.judgements)
    table = standings(files.board, contents.judgements, removed)
    editions = editions_of(table, contents.judgements, removed, allow_unwalled=False)
    tables = [table, *(edition.table for edition in editions)]
    scores_us = {checksum: score_us for one in tables for checksum, score_us in one.scores_us.items()}
    without.add(contents.judgements, moderated)
    return [(one, scores_us[one.checksum]) for one in contents.judgements if one.checksum in scores_us]


def _login_of(judgement: Judgement) -> str:
    return judgement.submission.login.lower()


def _account_of(judgement: Judgement) -> int | str:
    """The account's number, which stays when its login changes; the login if it is unknown."""
    return judgement.submission.user_id or _login_of(judgement)


def _file_of(judgement: Judgement) -> tuple[str, int | str, str]:
    return judgement.task, _account_of(judgement), judgement.submission.digest


def _case(case: CaseResult) -> dict[str, Any]:
    """A benchmark's times as measured, in microseconds; `ratio` to the anchor decides the rank."""
    timing = case.timing
    anchor = {"anchor_us": timing.anchor_us, "ratio": timing.ratio.model_dump()} if timing else {}
    return {"params": case.params, "time_us": case.time_us, **anchor}


def _line(row: TableRow) -> str:
    facts = {column.name: value for column, value in zip(_COLUMNS, row, strict=True)}
    facts |= {name: json.loads(facts[name]) for name in _OBJECTS} | {"finished_at": moment(facts["finished_at"])}
    return json.dumps(facts, allow_nan=False) + "\n"
