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
from scripts.pages.parts.summary import BoardSummary, Place
from scripts.pages.parts.write import FORMAT

LATEST_RECORDS = 20
FEW = 2
"""Up to this many boards without entries get a line each in their task's card; more of them share one line."""


@dataclass(frozen=True, kw_only=True)
class TaskCard:
    """A task and its boards, those with entries first.  `is_open`: at least one of them accepts entries.

    `rows` get a line each; the boards in `bare` have no entries and share one line.
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


@dataclass(frozen=True, kw_only=True)
class CardSection:
    """The cards of a set of tasks, or of the tasks in none; the first may have no `title`.  `about` is HTML."""

    title: str
    about: str
    cards: tuple[TaskCard, ...]


def landing_pages(
    site: Site,
    boards: Sequence[BoardSummary],
    faults: Sequence[LedgerFault],
    as_of: datetime | None,
    logins: Sequence[str] = (),
    *,
    hacks: int = 0,
) -> Iterator[tuple[str, str]]:
    """The landing page and its JSON.

    Args:
        logins: every author with a page.
        hacks: the number of disqualified files; without any, there is no page of them.
    """
    marks = sorted((mark for board in boards for mark in board.marks), key=lambda mark: mark.at)[::-1]
    latest = marks[:LATEST_RECORDS]
    cards = _cards(site, boards)
    # Tasks that closed without an entry share one line: a new competition closes those of the template.
    over = [card for card in cards if site.is_closed(card.task) and not card.entries]
    firsts = [board.first for board in boards if board.first]
    totals = {
        "boards": len(boards),
        "authors": len({place.login.lower() for board in boards for place in board.places}),
        "entries": sum(len(board.places) for board in boards),
        "records": sum(len(board.records) for board in boards),
    }
    yield page(
        "index.html",
        "index.html",
        site=site,
        as_of=as_of,
        description=render_markdown(site.description) if site.description else None,
        sections=_sections([card for card in cards if card not in over]),
        over=over,
        is_open=any(card.is_open for card in cards),
        marks=latest,
        limits=any(first.limit for first in firsts),
        unwalled=any(first.unwalled for first in firsts),
        provisional=any(first.provisional for first in firsts),
        self_timed=any(first.self_timed and not first.unwalled for first in firsts),
        contested=any(board.contenders for board in boards),
        totals=totals,
        faults=faults,
        hacks=hacks,
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


def _cards(site: Site, boards: Sequence[BoardSummary]) -> list[TaskCard]:
    """Open tasks first, then by number of entries."""
    by_task: dict[str, list[BoardSummary]] = {}
    for board in boards:
        by_task.setdefault(board.board.task.name, []).append(board)
    cards = [_card(site, found) for found in by_task.values()]
    return sorted(cards, key=lambda card: (not card.is_open, not card.entries))


def _sections(cards: Sequence[TaskCard]) -> list[CardSection]:
    """A section for each set, and one for the tasks in none, in the order of their first cards."""
    by_title: dict[str, list[TaskCard]] = {}
    for card in cards:
        by_title.setdefault(card.task.set.title if card.task.set else "", []).append(card)
    return [
        CardSection(title=title or ("Other tasks" if number else ""), about=_about(found), cards=tuple(found))
        for number, (title, found) in enumerate(by_title.items())
    ]


def _about(cards: Sequence[TaskCard]) -> str:
    """The text of a set: that of the first card whose task has one."""
    text = next((card.task.set.about for card in cards if card.task.set and card.task.set.about), "")
    return render_markdown(text, top_level=4) if text else ""


def _card(site: Site, boards: Sequence[BoardSummary]) -> TaskCard:
    is_open = any(site.takes_entries(one.board) for one in boards)
    entered = [one for one in boards if one.places]
    # A board that no machine judges any more gets its own line, which says so.
    idle = [one for one in boards if not one.places and site.takes_entries(one.board) != is_open]
    bare = [one for one in boards if not one.places and site.takes_entries(one.board) == is_open]
    if len(bare) <= FEW:
        entered, bare = entered + bare, []
    return TaskCard(task=boards[0].board.task, is_open=is_open, rows=(*entered, *idle), bare=tuple(bare))


def board_facts(site: Site, summary: BoardSummary) -> dict[str, Any]:
    """A board's summary for JSON."""
    board, first = summary.board, summary.first
    return {
        "task": board.task.name,
        "title": board.task.title,
        "set": board.task.set and board.task.set.title,
        "gpu": board.gpu,
        "lang": board.task.lang,
        "ranks": board.task.ranks,
        "judged": site.judges(board),
        "page": board_path(board),
        "deadline": board.task.deadline and board.task.deadline.isoformat(),
        "ranking_by": board.ranking_by,
        "entries": len(summary.places),
        "first": first and _first_facts(first),
    }


def _first_facts(first: Place) -> dict[str, Any]:
    return {
        "login": first.login,
        "score_us": first.score_us.model_dump(),
        "limit": first.limit,
        "provisional": first.provisional,
    }
