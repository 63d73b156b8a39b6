"""The page of an earlier edition of a board: its standings when the next edition began.

Its cases come from its judgements.  The rest (title, ranking) is today's.  The page is in `_editions`, which is not a
valid login.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from harness.records.fields import CaseKind
from harness.records.judgement import Judgement
from harness.records.stats import Interval
from harness.task.task import Board, Case
from scripts.ledger.moderation import Moderation
from scripts.pages.parts.paths import board_path, raw_url
from scripts.pages.parts.render import data, page
from scripts.pages.parts.site import Site
from scripts.pages.parts.summary import Mark, places_of
from scripts.pages.parts.words import Unit, case_labels
from scripts.standings.standings import Standings, standings


@dataclass(frozen=True, kw_only=True)
class Edition:
    """An earlier edition; `path` is its page, relative to the board's."""

    table: Standings
    path: str
    since: datetime
    until: datetime


@dataclass(frozen=True, kw_only=True)
class FormerPlace:
    """An author's rank when an earlier edition ended; `page` is the edition's, relative to the site's root."""

    board: Board
    page: str
    until: datetime
    rank: int
    of: int
    login: str
    score_us: Interval

    @property
    def facts(self) -> dict[str, Any]:
        return {
            "task": self.board.task.name,
            "gpu": self.board.gpu,
            "edition": self.board.edition,
            "until": self.until.isoformat(),
            "rank": self.rank,
            "of": self.of,
            "score_us": self.score_us.model_dump(),
            "page": self.page,
        }


def editions_of(
    table: Standings, judgements: Sequence[Judgement], removed: Mapping[str, Moderation], *, allow_unwalled: bool
) -> tuple[Edition, ...]:
    """A board's earlier editions with at least one row, newest first.

    Args:
        judgements: of this board, in ledger order.
        removed: decisions about judgements that do not count, by checksum.
    """
    found = (
        _edition(table.board, one, judgements, removed, allow_unwalled) for one in reversed(table.earlier_editions)
    )
    return tuple(edition for edition in found if edition)


def _edition(
    board: Board, name: str, judgements: Sequence[Judgement], removed: Mapping[str, Moderation], allow_unwalled: bool
) -> Edition | None:
    of_edition = [one for one in judgements if one.edition == name]
    ours = [one for one in of_edition if one.checksum not in removed]
    played = next((one.benchmarks for one in ours if one.is_rankable or (allow_unwalled and one.benchmarks)), None)
    if not played:
        return None
    cases = tuple(Case(kind=CaseKind.BENCHMARK, params=case.params) for case in played)
    then = replace(board, benchmarks=cases)
    vars(then)["edition"] = name  # This overrides a cached property, which would compute today's edition.
    table = standings(then, of_edition, removed, allow_unwalled=allow_unwalled, is_over=True)
    if not table.rows:
        return None
    path = f"_editions/{name[:12]}/index.html"
    return Edition(table=table, path=path, since=ours[0].finished_at, until=ours[-1].finished_at)


def former_places(editions: Sequence[Edition]) -> Iterator[FormerPlace]:
    """All rows of all earlier editions of a board."""
    for edition in editions:
        board, rows = edition.table.board, edition.table.rows
        for row in rows:
            yield FormerPlace(
                board=board, page=board_path(board, edition.path), until=edition.until,
                rank=row.rank, of=len(rows), login=row.login, score_us=row.score_us,
            )  # fmt: skip


def edition_pages(
    site: Site, editions: Sequence[Edition], records: Sequence[Sequence[Mark]], places: Mapping[str, Path]
) -> Iterator[tuple[str, str]]:
    """A page and its JSON for each earlier edition.

    Args:
        records: for each edition, oldest first.
        places: the ledger's files, by the checksums of their judgements.
    """
    for edition, marks in zip(editions, records, strict=True):
        board = edition.table.board
        path = board_path(board, edition.path)
        rows = places_of(site, edition.table)
        links = [raw_url(site.repository, places[row.newest.checksum]) for row in edition.table.rows]
        yield page(
            "edition.html",
            path,
            site=site,
            as_of=edition.until,
            edition=edition,
            board=board,
            unit=Unit.fitting(edition.table.rows[0].score_us.value),
            lines=[*zip(rows, (row.cases for row in edition.table.rows), links, strict=True)],
            labels=case_labels([case.params for case in board.benchmarks]),
            marks=marks[::-1],
        )
        facts = {
            "task": board.task.name,
            "gpu": board.gpu,
            "edition": board.edition,
            "since": edition.since.isoformat(),
            "until": edition.until.isoformat(),
            "benchmarks": [dict(case.params) for case in board.benchmarks],
            # Submissions to an earlier edition have no pages.
            "rows": [
                row.facts | {"page": None, "judgement": link or None} for row, link in zip(rows, links, strict=True)
            ],
            "records": [mark.facts | {"page": None, "diff": None} for mark in marks],
        }
        yield data(board_path(board, edition.path.replace("index.html", "edition.json")), facts)
