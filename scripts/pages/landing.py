"""The landing page: a card for each task with its boards, the latest records, how to take part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from harness.task.task import Task
from scripts.ledger.ledger import LedgerFault
from scripts.pages.parts.code import render_markdown
from scripts.pages.parts.paths import board_path
from scripts.pages.parts.render import data, page
from scripts.pages.parts.site import Site
from scripts.pages.parts.summary import BoardSummary
from scripts.pages.parts.write import FORMAT

LATEST_RECORDS = 20
FEW = 2
"""So many boards without entries have a line each in their task's card; more of them share one."""


@dataclass(frozen=True, kw_only=True)
class Card:
    """A task and its boards, those with entries first; `is_open` where one of them takes entries.

    `rows` have a line each, `bare` share one: nobody has entered them yet.
    """

    task: Task
    is_open: bool
    rows: tuple[BoardSummary, ...]
    bare: tuple[BoardSummary, ...]

    @property
    def boards(self) -> tuple[BoardSummary, ...]:
        return self.rows + self.bare

    @property
    def entries(self) -> int:
        return sum(len(board.places) for board in self.rows)


def landing_pages(
    site: Site,
    boards: Sequence[BoardSummary],
    faults: Sequence[LedgerFault],
    as_of: datetime | None,
    logins: Sequence[str] = (),
) -> Iterator[tuple[str, str]]:
    """The landing page and its JSON.

    Args:
        logins: of all who have a page.
    """
    marks = sorted((mark for board in boards for mark in board.marks), key=lambda mark: mark.at, reverse=True)
    latest = marks[:LATEST_RECORDS]
    cards = _cards(site, boards)
    totals = {
        "boards": len(boards),
        "authors": len({place.login.lower() for board in boards for place in board.places}),
        "entries": sum(len(board.places) for board in boards),
        "records": len(marks),
    }
    yield page(
        "index.html",
        "index.html",
        site=site,
        as_of=as_of,
        description=render_markdown(site.description) if site.description else None,
        cards=cards,
        is_open=any(card.is_open for card in cards),
        marks=latest,
        limits=any(board.champion and board.champion.limit for board in boards),
        self_timed=any(board.champion and board.champion.self_timed for board in boards),
        totals=totals,
        faults=faults,
    )
    facts = {
        "format": FORMAT,
        "title": site.title,
        "as_of": as_of and as_of.isoformat(),
        "totals": totals,
        "boards": [board_facts(site, board) for board in boards],
        "records": [mark.facts for mark in latest],
        "authors": logins,
        "guides": [{"title": guide.title, "page": guide.path} for guide in site.guides],
        "faults": [fault.facts for fault in faults],
    }
    yield data("index.json", facts)


def _cards(site: Site, boards: Sequence[BoardSummary]) -> list[Card]:
    """Open tasks first, the liveliest first among them."""
    by_task: dict[str, list[BoardSummary]] = {}
    for board in boards:
        by_task.setdefault(board.board.task.name, []).append(board)
    cards = [_card(site, found) for found in by_task.values()]
    return sorted(cards, key=lambda card: (not card.is_open, not card.entries))


def _card(site: Site, boards: Sequence[BoardSummary]) -> Card:
    is_open = any(site.takes_entries(one.board) for one in boards)
    entered = [one for one in boards if one.places]
    # What no machine judges any more has a line of its own, which says so.
    idle = [one for one in boards if not one.places and site.takes_entries(one.board) != is_open]
    bare = [one for one in boards if not one.places and site.takes_entries(one.board) == is_open]
    if len(bare) <= FEW:
        return Card(task=boards[0].board.task, is_open=is_open, rows=(*entered, *bare, *idle), bare=())
    return Card(task=boards[0].board.task, is_open=is_open, rows=(*entered, *idle), bare=tuple(bare))


def board_facts(site: Site, summary: BoardSummary) -> dict[str, Any]:
    """A board in a few lines of JSON."""
    board, first = summary.board, summary.champion
    return {
        "task": board.task.name,
        "title": board.task.title,
        "gpu": board.gpu,
        "lang": board.task.lang,
        "ranks": board.task.ranks,
        "judged": site.judges(board),
        "page": board_path(board),
        "deadline": board.task.deadline and board.task.deadline.isoformat(),
        "ranking_by": board.ranking_by,
        "entries": len(summary.places),
        "first": first and {"login": first.login, "score_us": first.score_us.model_dump(), "limit": first.limit},
    }
