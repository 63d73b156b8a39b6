"""A board as in the site's `board.json`, parsed as untrusted input.

    BoardFacts      a board ── RowFacts       its rows ── CaseFacts     a row's times, case by case
                            └─ RecordFacts    its records, oldest first
    IndexFacts      `index.json`: the boards of the site
    MachinesFacts   `machines.json`: the machines that judge ── MachineFacts    one of them
    AuthorFacts     `author.json`: the boards of an author

The same types are built from a ledger, so commands work alike with both sources.  Unknown fields are ignored: the site
may be newer than this program.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from functools import cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    StringConstraints,
    model_validator,
)

from harness.records.fields import Digest, Login, RecordName
from harness.records.judgement import Claim
from harness.records.stats import Interval
from scripts.competition.settings import Gpu
from scripts.ledger.description import MAX_CO_AUTHORS, Descriptions, co_authors_of
from scripts.pages.parts.taken_out import TakenOut
from scripts.standings.first_place import Record
from scripts.standings.roofline import Roofline, Throughput, find_floor_score_us
from scripts.standings.rows import gap_between
from scripts.standings.standings import Standings
from scripts.standings.ties import ahead_of, are_tied, tied_ranks

MAX_ROWS = 20_000
"""The most rows that a board may have; a longer list is refused."""

Short = Annotated[str, StringConstraints(max_length=100)]
LongLine = Annotated[str, StringConstraints(max_length=1000)]


class SiteModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, allow_inf_nan=False)


class CaseFacts(SiteModel):
    """One benchmark of a row.  `ratio` is to the anchor; None on self-timed boards.  Older sites lack `throughput`."""

    params: dict[Short, Any] = Field(max_length=50)
    time_us: Interval
    ratio: Interval | None = None
    throughput: Throughput | None = None


class RowFacts(SiteModel):
    """A row.  `gap` is the score over the champion's, minus 1; rows of one `band` are tied, except if `unproven`.

    `limit` is the hardware's limit over the score, None if it is unknown.

    An unproven row looks faster than the champion by more than a tie, but has not won their duel.  A provisional row's
    interval is too wide to take a place: it ranks after all others.  Older sites lack both flags and `co_authors`, the
    logins that the author credits.  `unmerged`, whether the row's pull request is not merged yet, is None for a ledger.
    """

    task: RecordName
    gpu: RecordName
    rank: PositiveInt
    band: PositiveInt
    login: Login
    co_authors: tuple[Login, ...] = Field(default=(), max_length=MAX_CO_AUTHORS)
    score_us: Interval
    gap: float
    limit: float | None = None
    digest: Digest
    language: Short
    lines: NonNegativeInt
    first_at: AwareDatetime
    judgements: PositiveInt
    champion: bool
    provisional: bool = False
    unproven: bool = False
    unwalled: bool
    unmerged: bool | None = Field(default=None, exclude=True)
    claim: Claim
    note: LongLine
    cases: tuple[CaseFacts, ...] = Field(max_length=1000)

    @model_validator(mode="after")
    def _reads_version_1(self) -> Self:
        """In version 1 of the site's files, `provisional` was the name of `unmerged`."""
        return self if "unmerged" in self.model_fields_set else self.model_copy(update={"provisional": False})

    def is_tied_with(self, other: RowFacts) -> bool:
        return are_tied(self, other)

    def gap_to(self, other: RowFacts) -> float:
        return gap_between(self.score_us, other.score_us)


class BaselineFacts(SiteModel):
    """A file of the task, such as a library's function, that has a time but no rank."""

    name: LongLine
    score_us: Interval
    digest: Digest
    judgements: PositiveInt
    cases: tuple[CaseFacts, ...] = Field(max_length=1000)


class RecordFacts(SiteModel):
    """A record.  `gain` is the share of time saved; None for the first entry, and after a forfeit."""

    at: AwareDatetime
    login: Login
    score_us: Interval
    gain: Annotated[float, Field(lt=1)] | None
    digest: Digest


class MachineFacts(SiteModel):
    """A machine that has judged a GPU's boards, and its software in its last judging: versions by name.

    On older sites, `software` and `cpu` are empty, and `cores` is 0.
    """

    gpu: RecordName
    device: LongLine
    cpu: LongLine = ""
    cores: NonNegativeInt = 0
    last_at: AwareDatetime
    software: dict[LongLine, LongLine] = Field(default_factory=dict, max_length=200)


class MachinesFacts(SiteModel):
    machines: tuple[MachineFacts, ...] = Field(max_length=10_000)


class BoardName(SiteModel):
    """A board of the index; `judged`: a machine judges it now.  `lang` is None on older sites."""

    task: RecordName
    title: LongLine
    gpu: RecordName
    lang: Short | None = None
    ranks: bool = True
    judged: bool = True
    deadline: AwareDatetime | None
    entries: NonNegativeInt

    def is_open(self, now: datetime) -> bool:
        """Whether a submission made now can be ranked."""
        return self.ranks and (self.deadline is None or now < self.deadline)


class TakenOutFacts(SiteModel):
    """A judgement that was removed from the board: for good, until a review, or by its author."""

    login: Login
    judged_at: AwareDatetime
    action: Literal["disqualify", "hold", "withdraw"]
    reason: LongLine
    at: AwareDatetime


class BoardFacts(SiteModel):
    """A board.  `rows` are in order; `unranked` counts judgements of this edition that don't count.

    `judged`: a machine judges it now.  `anchor_us` is the anchor's score; None without one, and on older sites.
    `baselines` are in order of their times; older sites have none.
    """

    task: RecordName
    title: LongLine
    gpu: RecordName
    judged: bool = True
    edition: Digest
    deadline: AwareDatetime | None
    ranking_by: Short
    anchor_us: PositiveFloat | None = None
    baselines: tuple[BaselineFacts, ...] = Field(default=(), max_length=100)
    unranked: NonNegativeInt
    rows: tuple[RowFacts, ...] = Field(max_length=MAX_ROWS)
    records: tuple[RecordFacts, ...] = Field(max_length=MAX_ROWS)
    taken_out: tuple[TakenOutFacts, ...] = Field(default=(), max_length=MAX_ROWS)

    def find_row(self, login: str) -> RowFacts | None:
        return next((row for row in self.rows if row.login.lower() == login.lower()), None)

    def ahead_of(self, row: RowFacts) -> RowFacts | None:
        return ahead_of(row, self.rows)

    def is_tied(self, row: RowFacts) -> bool:
        return row.rank in self.tied_ranks

    @cached_property
    def tied_ranks(self) -> frozenset[int]:
        return tied_ranks(self.rows)


class IndexFacts(SiteModel):
    boards: tuple[BoardName, ...] = Field(max_length=MAX_ROWS)


class _PlaceFacts(SiteModel):
    task: RecordName
    gpu: RecordName


class AuthorFacts(SiteModel):
    login: Login
    rows: tuple[_PlaceFacts, ...] = Field(max_length=MAX_ROWS)


def facts_of(
    table: Standings,
    taken_out: Iterable[TakenOut] = (),
    *,
    judged: bool = True,
    gpu: Gpu | None = None,
    descriptions: Descriptions | None = None,
) -> BoardFacts:
    """Convert a ranked board to the site's format; `gpu` is its machine, if known."""
    board, task = table.board, table.board.task
    roofline, floor = Roofline(work=task.work, gpu=gpu), find_floor_score_us(board, gpu)
    facts = {
        "task": task.name,
        "title": task.title,
        "gpu": board.gpu,
        "judged": judged,
        "edition": board.edition,
        "deadline": task.deadline and task.deadline.isoformat(),
        "ranking_by": board.ranking_by,
        "anchor_us": table.anchor_us,
        "baselines": [one.facts(roofline) for one in table.baselines],
        "unranked": table.unranked,
        "rows": [
            row.facts(
                board,
                roofline,
                co_authors=co_authors_of(row.judgements, descriptions or {}),
                limit=floor / row.score_us.value if floor else None,
                unmerged=None,
            )
            for row in table.rows
        ],
        "records": list(map(_record, table.records)),
        "taken_out": [one.facts for one in taken_out],
    }
    return BoardFacts.model_validate_json(json.dumps(facts))


def _record(record: Record) -> dict[str, Any]:
    return {
        "at": record.at.isoformat(),
        "login": record.login,
        "score_us": record.score_us.model_dump(),
        "gain": record.gain,
        "digest": record.digest,
    }
