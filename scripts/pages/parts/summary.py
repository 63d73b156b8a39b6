"""A board without its judgements, for pages of the whole site: places, records, improvements."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from itertools import takewhile
from typing import Any

from harness.records.stats import Interval
from harness.task.task import Board
from scripts.ledger.description import co_authors_of
from scripts.pages.parts.paths import changes_url, pull_url, submission_path
from scripts.pages.parts.site import Site
from scripts.pages.parts.words import note_of
from scripts.standings.first_place import Record
from scripts.standings.provisional import is_judged_again, provisional_sentence
from scripts.standings.roofline import find_floor_score_us
from scripts.standings.rows import Position, Row
from scripts.standings.standings import Standings
from scripts.standings.ties import tied_ranks


@dataclass(frozen=True, kw_only=True)
class Place(Position):
    """A row without its judgements.  `limit` is the hardware's limit over its time; None if the limit is unknown.

    `tied`: with others in its band; `tied_with` is the band's first login, empty for the first itself.  `ends_band`: it
    is the last of its band.  `unmerged`: its pull request is not merged yet.  `why_provisional` explains a provisional
    row in sentences.  `pull` is the URL of its newest pull request, or empty.  `co_authors` are credited by its author.
    """

    board: Board
    of: int
    tied: bool
    ends_band: bool
    limit: float | None
    unmerged: bool
    why_provisional: str
    tied_with: str
    co_authors: tuple[str, ...]
    pull_request: int | None
    pull: str
    facts: dict[str, Any]

    @property
    def remarks(self) -> list[str]:
        return ([f"tied with {self.tied_with}"] if self.tied_with else []) + ([self.note] if self.note else [])

    @property
    def page(self) -> str:
        return submission_path(self.board, self.login, self.digest)


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A record, or a board's first entry, without its judgement.

    `over` is the previous champion (the same author, for an improvement), empty for a first entry.  `changes` is the
    URL of the pull request's changes.  `has_diff`: the submission's page shows them.
    """

    board: Board
    at: datetime
    login: str
    score_us: Interval
    digest: str
    gain: float | None
    over: str
    by_duel: bool
    language: str
    pull_request: int | None
    changes: str
    has_diff: bool

    @property
    def is_record(self) -> bool:
        """Whether it beat an earlier best; a board's first entry did not."""
        return bool(self.over)

    @property
    def page(self) -> str:
        return submission_path(self.board, self.login, self.digest)

    @property
    def facts(self) -> dict[str, Any]:
        return {
            "task": self.board.task.name,
            "gpu": self.board.gpu,
            "at": self.at.isoformat(),
            "login": self.login,
            "score_us": self.score_us.model_dump(),
            "gain": self.gain,
            "over": self.over or None,
            "by_duel": self.by_duel,
            "language": self.language,
            "digest": self.digest,
            "pull_request": self.pull_request,
            "changes": self.changes or None,
            "diff": f"{self.page}#changes" if self.has_diff else None,
            "page": self.page,
        }


@dataclass(frozen=True, kw_only=True)
class NewBest:
    """An author's new best on a board, or a `record` that they set with an older file.

    `before_us` is their best time before it, None for their first.  Only rows and former first places have a
    `page`; for other files, `pull` is the URL of the pull request, or empty.
    """

    board: Board
    at: datetime
    login: str
    before_us: float | None
    score_us: float
    digest: str
    record: Mark | None
    page: str | None
    pull_request: int | None
    pull: str

    @property
    def gain(self) -> float | None:
        """The share of their own time that it saved, or None: a duel can win a record without a better score."""
        return 1 - self.score_us / self.before_us if self.before_us and self.score_us < self.before_us else None

    @property
    def facts(self) -> dict[str, Any]:
        return {
            "task": self.board.task.name,
            "gpu": self.board.gpu,
            "at": self.at.isoformat(),
            "before_us": self.before_us,
            "score_us": self.score_us,
            "gain": self.gain,
            "record": self.record is not None,
            "digest": self.digest,
            "pull_request": self.pull_request,
            "page": self.page,
        }


@dataclass(frozen=True, kw_only=True)
class BoardSummary:
    """A board's rows (`places`) and records; `as_of` is the time of the last judgement of a row, None without rows.

    `marks` are the board's first entry and its records, oldest first; there are none if all rows are provisional.
    """

    board: Board
    places: tuple[Place, ...]
    marks: tuple[Mark, ...]
    steps: tuple[NewBest, ...]
    as_of: datetime | None

    @property
    def first(self) -> Place | None:
        """The first row; it is provisional if all are."""
        return self.places[0] if self.places else None

    @property
    def records(self) -> tuple[Mark, ...]:
        """The records without the board's first entry, oldest first."""
        return tuple(mark for mark in self.marks if mark.is_record)

    @property
    def is_judged_again(self) -> bool:
        """Whether the bot judges a provisional row again by itself."""
        return any(place.provisional and is_judged_again(place.facts["judgements"]) for place in self.places)

    @property
    def contenders(self) -> tuple[Place, ...]:
        """The rows that look faster than first place, and whose duel is still due."""
        return tuple(place for place in self.places if place.contends)

    @property
    def crowning(self) -> Mark | None:
        """The record that gave the champion first place; later ones are their own improvements."""
        theirs = takewhile(lambda mark: mark.login.lower() == self.marks[-1].login.lower(), reversed(self.marks))
        return next(iter([*theirs][-1:]), None)


def summary_of(site: Site, table: Standings) -> BoardSummary:
    judged_at = (row.judgements[-1].finished_at for row in table.rows)
    marks = marks_of(site, table)
    return BoardSummary(
        board=table.board,
        places=places_of(site, table),
        marks=marks,
        steps=tuple(_steps(site, table, marks)),
        as_of=max(judged_at, default=None),
    )


def places_of(site: Site, table: Standings) -> tuple[Place, ...]:
    """All rows, best first."""
    tied = tied_ranks(table.rows)
    below = [*(row.band for row in table.rows[1:]), 0]
    return tuple(
        _place(site, table, row, facts, tied=row.rank in tied, ends_band=row.band != following)
        for row, facts, following in zip(table.rows, row_facts(site, table.board, table.rows), below, strict=False)
    )


def _place(site: Site, table: Standings, row: Row, facts: dict[str, Any], *, tied: bool, ends_band: bool) -> Place:
    leader = table.leader_of(row)
    position: dict[str, Any] = {field.name: getattr(row, field.name) for field in fields(Position)}
    return Place(
        **position | {"note": note_of(row)},
        board=table.board,
        of=len(table.rows),
        tied=tied,
        ends_band=ends_band,
        limit=facts["limit"],
        unmerged=facts["unmerged"],
        why_provisional=_why_provisional(site, row, table.board),
        tied_with=leader.login if tied and leader is not row else "",
        co_authors=facts["co_authors"],
        pull_request=facts["pull_request"],
        pull=pull_url(site.repository, row.newest),
        facts=facts,
    )


def row_facts(site: Site, board: Board, rows: Iterable[Row]) -> Iterator[dict[str, Any]]:
    """Rows of a board's current edition for scripts."""
    roofline = site.roofline(board)
    floor = find_floor_score_us(board, roofline.gpu)
    for row in rows:
        yield row.facts(
            board,
            roofline,
            co_authors=co_authors_of(row.judgements, site.descriptions),
            limit=floor / row.score_us.value if floor else None,
            unmerged=site.is_unmerged(row.newest),
            pull_request=row.newest.submission.pull_request,
            page=submission_path(board, row.login, row.digest),
        )


def _why_provisional(site: Site, row: Row, board: Board) -> str:
    if not row.provisional:
        return ""
    return provisional_sentence(row.score_us, len(row.judgements), is_judged=site.judges(board))


def marks_of(site: Site, table: Standings) -> tuple[Mark, ...]:
    """A board's records, oldest first."""
    before: list[Record | None] = [None, *table.records]
    latest = {(record.login, record.digest): record for record in table.records}
    return tuple(
        _mark(site, table.board, former, record, on_page=latest[record.login, record.digest] is record)
        for former, record in zip(before, table.records, strict=False)
    )


def _mark(site: Site, board: Board, former: Record | None, record: Record, *, on_page: bool) -> Mark:
    """`on_page`: it is the latest record of its file, so the file's page shows it."""
    has_diff = on_page and former is not None and former.digest != record.digest
    return Mark(
        board=board,
        at=record.at,
        login=record.login,
        score_us=record.score_us,
        digest=record.digest,
        gain=record.gain,
        over=former.login if former else "",
        by_duel=bool(former and record.duel and record.duel.opponent.lower() == former.login.lower()),
        language=record.judgement.submission.language,
        pull_request=record.judgement.submission.pull_request,
        changes=changes_url(site.repository, record.judgement),
        has_diff=has_diff and all(one and site.sources(one.judgement) is not None for one in (former, record)),
    )


def _steps(site: Site, table: Standings, marks: Sequence[Mark]) -> Iterator[NewBest]:
    """All improvements and records, oldest first; one that was both is one step."""
    improved = {(one.at, one.login, one.digest): one for one in table.improvements}
    records = {(one.at, one.login, one.digest): (one, mark) for one, mark in zip(table.records, marks, strict=True)}
    shown = {(row.login, row.digest) for row in table.rows} | {(one.login, one.digest) for one in table.records}
    best_us: dict[str, float] = {}
    order = {key: number for number, key in enumerate(records)}  # two records may have the same time
    for key in sorted(improved.keys() | records.keys(), key=lambda key: (key[0], order.get(key, -1), *key[1:])):
        at, login, digest = key
        record, mark = records.get(key, (None, None))
        found = improved.get(key) or record
        assert found
        score_us, before_us = found.score_us.value, best_us.get(login.lower())
        yield NewBest(
            board=table.board,
            at=at,
            login=login,
            before_us=before_us,
            score_us=score_us,
            digest=digest,
            record=mark,
            page=submission_path(table.board, login, digest) if (login, digest) in shown else None,
            pull_request=found.judgement.submission.pull_request,
            pull=pull_url(site.repository, found.judgement),
        )
        best_us[login.lower()] = min(score_us, before_us or score_us)
