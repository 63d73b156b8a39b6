"""What is worth telling: the kinds of news, and what each says.  Pure.

    Result      a first entry, a record, a change in the top three       key: the judgement that made it
    Notice      a new task or board, a deadline, a new edition           key: task and time
    Final       a board of a task that has closed                        key: task and deadline

`says` is what an announcement means, without what drifts (times move by a digit with every judgement of a board): the
message on Discord is edited when that changes, and only then.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from harness.records.stats import Interval
from scripts.competition.settings import Announcements
from scripts.standings.standings import Row

FRESH = timedelta(days=3)
"""What is older is no news any more: a channel that could not be reached for weeks is not flooded."""


class Kind(StrEnum):
    """What has happened; the value begins the key."""

    FIRST_ENTRY = "first-entry"
    RECORD = "record"
    TOP_THREE = "top-three"
    NEW_TASK = "new-task"
    NEW_BOARD = "new-board"
    DEADLINE = "deadline"
    CLOSED = "closed"
    EDITION = "edition"

    def is_wanted(self, settings: Announcements) -> bool:
        """Whether the settings want it told."""
        return {
            Kind.FIRST_ENTRY: settings.first_entries,
            Kind.RECORD: settings.records,
            Kind.TOP_THREE: settings.top_three,
            Kind.NEW_TASK: settings.new_tasks,
            Kind.NEW_BOARD: settings.new_tasks,
            Kind.DEADLINE: settings.deadlines,
            Kind.CLOSED: settings.deadlines,
            Kind.EDITION: settings.editions,
        }[self]


@dataclass(frozen=True, kw_only=True)
class PodiumPlace:
    """A row of a podium.

    `digest` is of its file, `note` says why one that looks faster stands behind; `rests_on` are the checksums of the
    judgements that its time is pooled from.
    """

    rank: int
    login: str
    score_us: Interval
    gap: float
    digest: str
    note: str = ""
    rests_on: tuple[str, ...] = ()

    @classmethod
    def of(cls, row: Row) -> PodiumPlace:
        return cls(
            rank=row.rank,
            login=row.login,
            score_us=row.score_us,
            gap=row.gap,
            digest=row.digest,
            note=row.note,
            rests_on=tuple(one.checksum for one in row.judgements),
        )

    @property
    def facts(self) -> list[object]:
        """Who stands there by which judgements: the time itself drifts, and a correction takes one of them away."""
        return [self.rank, self.login, self.digest, list(self.rests_on)]


@dataclass(frozen=True, kw_only=True)
class News:
    """`at` is when it happened; it is posted between that and `until`, once it `is_ready`.  `title` is the task's."""

    kind: Kind
    key: str
    task: str
    title: str
    at: datetime
    until: datetime
    is_ready: bool = True

    @property
    def facts(self) -> list[object]:
        """What it means, for `says`."""
        return [self.kind, self.task]

    @property
    def says(self) -> str:
        return hashlib.sha256(json.dumps(self.facts).encode()).hexdigest()


@dataclass(frozen=True, kw_only=True)
class Result(News):
    """Something that a judgement changed on a board.

    `who` is the row that moved, `over` whom it took the first place from, `gain` the share of time saved by that, and
    `beaten` the checksum of the judgement that had set the record before.
    `by_duel` says how the duel went, in words; empty where none decided.  `former` are the logins of the podium before,
    `caveat` is what to know of a time that is less than bounded.
    """

    gpu: str
    edition: str
    who: PodiumPlace
    podium: tuple[PodiumPlace, ...]
    former: tuple[str, ...]
    over: str = ""
    beaten: str = ""
    gain: float | None = None
    by_duel: str = ""
    caveat: str = ""

    @property
    def facts(self) -> list[object]:
        # The podium is that of the moment: what the same people hand in later is not on it.  Duel and caveat are of the
        # judgement in the key.
        podium = [place.facts for place in self.podium]
        return [*super().facts, self.gpu, self.who.facts, self.over, self.beaten, podium, list(self.former)]


@dataclass(frozen=True, kw_only=True)
class TaskNews(News):
    """Something about a task.  `gpus` are the boards that it concerns, `blurb` its first words."""

    gpus: tuple[str, ...]
    deadline: datetime | None = None
    blurb: str = ""

    @property
    def facts(self) -> list[object]:
        return [*super().facts, list(self.gpus), self.deadline and self.deadline.isoformat()]


@dataclass(frozen=True, kw_only=True)
class Standing:
    """How a board stands at the end: its podium, and how many took part."""

    gpu: str
    podium: tuple[PodiumPlace, ...]
    entries: int


@dataclass(frozen=True, kw_only=True)
class Final(News):
    """The end of a task: a standing for each board."""

    boards: tuple[Standing, ...]

    @property
    def facts(self) -> list[object]:
        boards = [[one.gpu, one.entries, [place.facts for place in one.podium]] for one in self.boards]
        return [*super().facts, boards]
