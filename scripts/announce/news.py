"""The kinds of news and their contents.  Pure.

    NewsResult  a first entry, a record, a change in the top three       key: the judgement behind it
    TaskNews    a new task or board, a deadline, a new edition           key: task and time
    Final       the final standings of a closed task                     key: task and deadline

`content_digest` is a hash of what an announcement means, without values that drift (times move by a digit with every
judgement of a board).  The message on Discord is edited only if it changes.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from harness.records.stats import Interval
from scripts.competition.settings import Announcements
from scripts.standings.rows import Row

FRESH = timedelta(days=3)
"""Older news is not posted, so that a channel is not flooded after weeks out of reach."""


class NewsKind(StrEnum):
    """The kind of news; its value is the first part of the key."""

    FIRST_ENTRY = "first-entry"
    RECORD = "record"
    TOP_THREE = "top-three"
    NEW_TASK = "new-task"
    NEW_BOARD = "new-board"
    DEADLINE = "deadline"
    CLOSED = "closed"
    EDITION = "edition"

    def is_wanted(self, settings: Announcements) -> bool:
        """Whether the settings allow this kind."""
        return {
            NewsKind.FIRST_ENTRY: settings.first_entries,
            NewsKind.RECORD: settings.records,
            NewsKind.TOP_THREE: settings.top_three,
            NewsKind.NEW_TASK: settings.new_tasks,
            NewsKind.NEW_BOARD: settings.new_tasks,
            NewsKind.DEADLINE: settings.deadlines,
            NewsKind.CLOSED: settings.deadlines,
            NewsKind.EDITION: settings.editions,
        }[self]


@dataclass(frozen=True, kw_only=True)
class PodiumPlace:
    """A row of a podium.

    `digest` is of its file.  `note` says why a row that looks faster ranks lower, `duel_status` whether it has dueled
    the first.  `rests_on` has the checksums of the judgements that its time is pooled from.
    """

    rank: int
    login: str
    score_us: Interval
    gap: float
    digest: str
    note: str = ""
    duel_status: str = ""
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
            duel_status=row.duel_status or "",
            rests_on=tuple(one.checksum for one in row.judgements),
        )

    @property
    def facts(self) -> list[object]:
        """The row and its judgements, without its time: times drift, but a correction removes a judgement."""
        return [self.rank, self.login, self.digest, list(self.rests_on)]


@dataclass(frozen=True, kw_only=True)
class News:
    """An item of news.  It happened at `at` and is posted before `until`, once it `is_ready`; `title` is the task's."""

    kind: NewsKind
    key: str
    task: str
    title: str
    at: datetime
    until: datetime
    is_ready: bool = True

    @property
    def facts(self) -> list[object]:
        """The meaning, for `content_digest`."""
        return [self.kind, self.task]

    @property
    def content_digest(self) -> str:
        return hashlib.sha256(json.dumps(self.facts).encode()).hexdigest()


@dataclass(frozen=True, kw_only=True)
class NewsResult(News):
    """A change on a board by a judgement.

    `who` is the row that moved, `over` the previous champion, `gain` the share of time saved, and `beaten` the checksum
    of the judgement behind the previous record.  `by_duel` is the result of the deciding duel in words, or empty.
    `former` has the logins of the podium before.  `caveat` qualifies a time that is not bounded.
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
        # The podium is that of the moment, without later files by the same authors.  The key's judgement determines
        # duel and caveat, so they are left out.
        podium = [place.facts for place in self.podium]
        return [*super().facts, self.gpu, self.who.facts, self.over, self.beaten, podium, list(self.former)]


@dataclass(frozen=True, kw_only=True)
class TaskNews(News):
    """News about a task.  `gpus` are the affected boards, `blurb` is the start of its description."""

    gpus: tuple[str, ...]
    deadline: datetime | None = None
    blurb: str = ""

    @property
    def facts(self) -> list[object]:
        return [*super().facts, list(self.gpus), self.deadline and self.deadline.isoformat()]


@dataclass(frozen=True, kw_only=True)
class Standing:
    """A board's final standing: its podium and its number of entries."""

    gpu: str
    podium: tuple[PodiumPlace, ...]
    entries: int


@dataclass(frozen=True, kw_only=True)
class Final(News):
    """The end of a task: the final standing of each board."""

    boards: tuple[Standing, ...]

    @property
    def facts(self) -> list[object]:
        boards = [[one.gpu, one.entries, [place.facts for place in one.podium]] for one in self.boards]
        return [*super().facts, boards]
