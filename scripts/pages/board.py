"""A board's page: standings with intervals, times case by case, the record history, and the task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from harness.records.stats import Interval
from harness.task.task import Task
from harness.task.task_file import Ranking
from scripts.common.text import format_us
from scripts.ledger.moderation import REMOVED
from scripts.pages.edition import Edition
from scripts.pages.landing import board_facts
from scripts.pages.machines import Reading
from scripts.pages.parts.code import render_code, render_markdown
from scripts.pages.parts.paths import board_path, pull_url
from scripts.pages.parts.render import data, page
from scripts.pages.parts.site import Site
from scripts.pages.parts.staircase import Best, Staircase, staircase
from scripts.pages.parts.summary import BoardSummary, Place
from scripts.pages.parts.taken_out import TakenOut
from scripts.pages.parts.whiskers import Whisker, whiskers
from scripts.pages.parts.words import CaseLabel, Unit, case_labels, claims, day, heat
from scripts.standings.roofline import find_floors_us
from scripts.standings.rows import Row
from scripts.standings.standings import Standings

FOLDS_FROM, UNFOLDED = 25, 15
"""From this many rows on, only the first ones are shown until the reader expands the table or searches the page."""

_STAIRCASES = {"broad": (1040, 280), "medium": (700, 260), "narrow": (340, 240)}
"""The sizes of the record chart.  `style.css` shows the one whose text matches the page's text size."""


@dataclass(frozen=True, kw_only=True)
class Column:
    """One benchmark in the heat map.  `floor_us` is the hardware's limit, if known."""

    label: CaseLabel
    unit: Unit
    best_us: float
    floor_us: float | None


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One time of the heat map: `loss` is the share by which it exceeds first place's time, `kind` its CSS class."""

    us: float
    text: str
    loss: float
    kind: str


@dataclass(frozen=True, kw_only=True)
class BoardRow:
    """A row of the standings, as displayed."""

    place: Place
    whisker: Whisker
    cells: tuple[Cell, ...]


@dataclass(frozen=True, kw_only=True)
class UnrankedRow:
    """The times of the anchor or of a baseline, below the standings.  `gap` is to first place.

    `error_us` is a baseline's interval, and `pull` the URL of its newest pull request, or empty.
    """

    title: str
    file: str
    us: float
    gap: float
    limit: float | None
    cells: tuple[Cell, ...]
    error_us: Interval | None = None
    pull_request: int | None = None
    pull: str = ""


@dataclass(frozen=True, kw_only=True)
class ShownFile:
    title: str
    hint: str
    code: Markup


def board_pages(
    site: Site,
    table: Standings,
    summary: BoardSummary,
    editions: Sequence[Edition],
    taken_out: Sequence[TakenOut],
    readings: Sequence[Reading],
) -> Iterator[tuple[str, str]]:
    """A board's page, its JSON, and a small JSON file with the names of its rows."""
    board, task = table.board, table.board.task
    columns = columns_of(site, table)
    yield page(
        "board.html",
        board_path(board),
        site=site,
        as_of=max(filter(None, (summary.as_of, *(one.at for one in taken_out))), default=None),
        table=table,
        summary=summary,
        editions=editions,
        taken_out=taken_out,
        removals=REMOVED,
        folds_from=FOLDS_FROM,
        unfolded=UNFOLDED,
        unit=Unit.fitting(table.rows[0].score_us.value) if table.rows else None,
        lines=_lines(table, summary, columns),
        unranked=sorted(_unranked_rows(site, table, summary, columns), key=lambda row: row.us),
        columns=columns,
        one_unit=len({column.unit.name for column in columns}) == 1,
        marks=summary.marks[::-1],
        claims=claims(table),
        staircases={name: _staircase(summary, *size) for name, size in _STAIRCASES.items()},
        statement=render_markdown(task.description),
        files=[*_files(task)],
        machines=[one for one in readings if one.software],
    )
    facts = board_facts(site, summary) | {
        "edition": board.edition,
        "earlier_editions": table.earlier_editions,
        "nominal_us": table.nominal_us,
        "anchor_us": table.anchor_us,
        "baselines": [one.facts(site.roofline(board)) for one in table.baselines],
        "unranked": table.unranked,
        "benchmarks": [dict(case.params) for case in board.benchmarks],
        "rows": [place.facts for place in summary.places],
        "records": [mark.facts for mark in summary.marks],
        "taken_out": [one.facts for one in taken_out],
    }
    yield data(board_path(board, "board.json"), facts)
    yield data(board_path(board, "rows.json"), _names(summary))


def _names(summary: BoardSummary) -> dict[str, Any]:
    """The submissions to compare with, in a small file: `board.json` may have megabytes.  Digests are as in URLs."""
    return {
        "rows": [{"rank": one.rank, "login": one.login, "digest": one.digest[:12]} for one in summary.places],
        "records": [{"at": one.at.isoformat(), "login": one.login, "digest": one.digest[:12]} for one in summary.marks],
    }


def columns_of(site: Site, table: Standings) -> tuple[Column, ...]:
    """The benchmarks of a board; empty if the board has no rows."""
    if not table.rows:
        return ()
    board = table.board
    floors = find_floors_us(board, site.roofline(board).gpu) or (None,) * len(board.benchmarks)
    labels = case_labels([case.params for case in board.benchmarks])
    # A provisional time, which may be far too low, is no best, unless there is no other.
    settled = [row.cases for row in table.rows if not row.provisional] or [row.cases for row in table.rows]
    times = zip(*settled, strict=True)
    bests = [min(case.time_us.value for case in column) for column in times]
    return tuple(
        Column(label=label, unit=Unit.fitting(best), best_us=best, floor_us=floor)
        for label, best, floor in zip(labels, bests, floors, strict=True)
    )


def _lines(table: Standings, summary: BoardSummary, columns: Sequence[Column]) -> list[BoardRow]:
    if not table.rows:
        return []
    settled = sum(not row.provisional for row in table.rows)
    drawn = whiskers([row.score_us for row in table.rows], settled or len(table.rows))
    return [
        BoardRow(place=place, whisker=whisker, cells=_cells(row, table.rows[0], columns, table.board.ranking_by))
        for row, place, whisker in zip(table.rows, summary.places, drawn, strict=True)
    ]


def _cells(row: Row, first: Row, columns: Sequence[Column], ranking_by: Ranking) -> tuple[Cell, ...]:
    times, theirs = ([case.time_us.value for case in one.cases] for one in (row, first))
    kinds = heat(times, theirs, ranking_by)
    return tuple(
        Cell(us=us, text=column.unit(us), loss=us / other - 1, kind="best" if us == column.best_us else kind)
        for us, other, column, kind in zip(times, theirs, columns, kinds, strict=True)
    )


def _unranked_rows(
    site: Site, table: Standings, summary: BoardSummary, columns: Sequence[Column]
) -> Iterator[UnrankedRow]:
    """The anchor and the baselines that were judged; nothing on a board without rows."""
    first, anchor = summary.first, table.board.task.anchor
    if not first:
        return
    theirs = [case.time_us.value for case in table.rows[0].cases]

    def row(title: str, path: Path, us: float, times: Sequence[float], **facts: Any) -> UnrankedRow:
        cells = (
            Cell(us=one, text=column.unit(one), loss=one / other - 1, kind="")
            for one, other, column in zip(times, theirs, columns, strict=True)
        )
        shrinks = first.score_us.value / us
        limit = first.limit and first.limit * shrinks
        return UnrankedRow(
            title=title, file=path.name, us=us, gap=1 / shrinks - 1, limit=limit, cells=tuple(cells), **facts
        )

    if anchor and table.anchor_us:
        yield row("Anchor", anchor, table.anchor_us, table.nominal_us)
    for one in table.baselines:
        yield row(
            one.name,
            one.baseline.path,
            one.score_us.value,
            [case.time_us.value for case in one.cases],
            error_us=one.score_us,
            pull_request=one.newest.submission.pull_request,
            pull=pull_url(site.repository, one.newest),
        )


def _files(task: Task) -> Iterator[ShownFile]:
    for language, path in task.templates.items():
        code = render_code(path.read_text("utf-8", "replace"), path.name)
        yield ShownFile(title="Template", hint=f"a starting point, in {language}", code=code)
    if task.reference:
        code = render_code(task.reference, "reference.py")
        yield ShownFile(title="Reference", hint="defines correct output and tolerance", code=code)
    if task.anchor:
        code = render_code(task.anchor_source.decode("utf-8", "replace"), task.anchor.name)
        yield ShownFile(title="Anchor", hint="timed alongside every entry", code=code)
    for baseline in task.baselines:
        code = render_code(baseline.path.read_text("utf-8", "replace"), baseline.path.name)
        yield ShownFile(title=baseline.name, hint="a baseline: timed, but not ranked", code=code)
    for name, content in task.shared_files.items():
        code = render_code(content.decode("utf-8", "replace"), name)
        yield ShownFile(title=name, hint="in the same folder as your file when it runs", code=code)


def _staircase(summary: BoardSummary, width: int, height: int) -> Staircase | None:
    if not summary.marks:
        return None
    folder = f"{summary.board.task.name}/{summary.board.gpu}/"
    bests = [
        Best(
            at=mark.at,
            us=mark.score_us.value,
            name=mark.login,
            label=f"{mark.login}: {format_us(mark.score_us.value)}, {day(mark.at)}",
            href=mark.page.removeprefix(folder),
        )
        for mark in summary.marks
    ]
    first = summary.first
    floor_us = first.limit * first.score_us.value if first and first.limit else None
    until = summary.as_of or bests[-1].at
    return staircase("Best time over the season", bests, until, width=width, height=height, floor_us=floor_us)
