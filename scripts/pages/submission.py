"""A submission's page: its rank, where it loses time to first place, its samples, its code and how it was judged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

from markupsafe import Markup

from harness.records.judgement import Judgement
from harness.task.task import Board
from harness.task.task_file import Ranking
from scripts.common.text import shorten
from scripts.ledger.description import find_description
from scripts.pages.board import Column, columns_of
from scripts.pages.parts.charts import Strip, StripSide, strip
from scripts.pages.parts.code import is_exact, render_code, render_diff
from scripts.pages.parts.paths import file_url, ledger_url, pull_url, raw_url, submission_path
from scripts.pages.parts.render import data, page
from scripts.pages.parts.site import Site
from scripts.pages.parts.summary import BoardSummary, Mark, Place, row_facts
from scripts.pages.parts.words import case_costs, case_labels
from scripts.standings.author_files import PooledFile
from scripts.standings.case_times import CaseTime
from scripts.standings.first_place import Record
from scripts.standings.rows import Row, former_row
from scripts.standings.standings import Standings
from scripts.standings.ties import ahead_of

JUDGEMENTS_BESIDE = 50
"""The first rows of a board, and its latest records, whose judgements are copied next to their pages, with every sample
and seed.  The other pages link to the ledger: GitHub Pages limits a site to 1 GB."""


MOST_CASES = 200
"""Cases of a judgement that its page lists; a judgement may have tens of thousands."""
MOST_DUEL_CHARTS = 24
MOST_OF_A_MESSAGE = 500
_NEWEST = "judgement.json"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A submission with a page: it has a row on its board, or once held first place there.

    `links` has a URL for each judgement, next to the page or in the repository's ledger; it is empty if there is none.
    `co_authors` and `note` are its author's words.
    """

    row: Row
    place: Place | None
    mark: Mark | None
    links: tuple[str, ...]
    co_authors: tuple[str, ...]
    note: str

    @property
    def keeps_judgements(self) -> bool:
        """Whether the judgements are copied next to the page."""
        return self.links[-1:] == (_NEWEST,)


@dataclass(frozen=True, kw_only=True)
class ComparedSubmission:
    """Another submission that this one is compared with.

    `name` is its role, such as first place; `whose` is its author, in words.  `came_before`: the diff leads from it to
    this submission, and not the other way round.
    """

    name: str
    whose: str
    file: PooledFile
    came_before: bool

    @property
    def title(self) -> str:
        """The heading of the diff."""
        return f"Diff {'from' if self.came_before else 'to'} {self.name}, {self.whose}"

    @property
    def href(self) -> str:
        return f"../../{self.file.login}/{self.file.digest[:12]}/index.html"


@dataclass(frozen=True, kw_only=True)
class CaseComparison:
    """One benchmark compared with those of the rivals.  `worst`: here the score loses most to the first rival."""

    column: Column
    case: CaseTime
    theirs_us: tuple[float, ...]
    worst: bool

    @property
    def ratios(self) -> tuple[float, ...]:
        return tuple(self.case.time_us.value / us for us in self.theirs_us)

    @property
    def lost_us(self) -> float:
        """The time lost to the first rival, in microseconds."""
        return self.case.time_us.value - self.theirs_us[0]

    @property
    def limit(self) -> float | None:
        floor = self.column.floor_us
        return floor / self.case.time_us.value if floor else None


def submission_pages(
    site: Site,
    table: Standings,
    summary: BoardSummary,
    places: Mapping[str, Path],
    claimed: Mapping[str, Judgement],
) -> Iterator[tuple[str, str]]:
    """A page for every row and every former first place, its JSON, and the judgements.

    Args:
        places: the ledger's files, by the checksums of their judgements.
        claimed: the original judgements, for those whose dates in the future were replaced for display.
    """
    columns = columns_of(site, table)
    for entry in _entries(site, table, summary, places):
        path = partial(submission_path, table.board, entry.row.login, entry.row.digest)
        yield _page(site, table, summary, entry, columns)
        yield data(path("submission.json"), _facts(site, table.board, entry))
        if entry.keeps_judgements:
            for name, judgement in zip(entry.links, entry.row.judgements, strict=True):
                yield path(name), claimed.get(judgement.checksum, judgement).model_dump_json() + "\n"


def _facts(site: Site, board: Board, entry: Entry) -> dict[str, Any]:
    """A submission for scripts.  `judgement` is the URL of the newest judgement, or None."""
    facts = entry.place.facts if entry.place else next(row_facts(site, board, [entry.row]))
    record = entry.mark and entry.mark.facts
    judgement = entry.links[-1] if entry.links else None
    return facts | {"record": record, "judgement": judgement, "author_note": entry.note}


def _page(
    site: Site, table: Standings, summary: BoardSummary, entry: Entry, columns: Sequence[Column]
) -> tuple[str, str]:
    board, row, newest = table.board, entry.row, entry.row.newest
    source = site.sources(newest)
    ahead = ahead_of(row, table.rows) if entry.place else None
    rivals = _rivals(table, summary, entry, ahead)
    crowning = _crowning(table, summary, entry)
    dueled = crowning or next((one for one in reversed(row.judgements) if one.duel), None)
    path = submission_path(board, row.login, row.digest)
    return page(
        "submission.html",
        path,
        site=site,
        as_of=summary.as_of,
        board=board,
        entry=entry,
        summary=summary,
        standing=row if entry.place else table.find_row(row.login),
        ahead=ahead,
        judgement=newest,
        rivals=rivals,
        comparisons=_comparisons(entry, rivals, columns, board.ranking_by),
        cases=[(case, shorten(case.message, MOST_OF_A_MESSAGE)) for case in newest.cases[:MOST_CASES]],
        more_cases=max(0, len(newest.cases) - MOST_CASES),
        samples=_sample_charts(newest, columns),
        unsteady=[case.timing.note for case in newest.benchmarks if case.timing and not case.timing.steady]
        + [case.told.note for case in newest.benchmarks if case.told and case.told.note],
        dueled=dueled,
        crowned=crowning is not None,
        took_first=any(record.cause is dueled for record in table.records),
        duels=_duel_charts(dueled) if dueled else [],
        code=None if source is None else render_code(source, board.task.submission_name, anchors=True),
        is_exact=source is None or is_exact(source),
        file_url=file_url(site.repository, board, newest),
        ledger_url=ledger_url(site.repository, newest),
        pull_url=pull_url(site.repository, newest),
        replayed=entry.links and urljoin(site.address and f"{site.address}{path}", entry.links[-1]),
        changes=list(_changes(site, rivals, source)),
    )


def _entries(site: Site, table: Standings, summary: BoardSummary, places: Mapping[str, Path]) -> Iterator[Entry]:
    marks = {(mark.login, mark.digest): mark for mark in summary.marks}
    latest = {(mark.login, mark.digest) for mark in summary.marks[-JUDGEMENTS_BESIDE:]}

    def entry(row: Row, place: Place | None = None) -> Entry:
        key = row.login, row.digest
        is_kept = key in latest or (place is not None and place.rank <= JUDGEMENTS_BESIDE)
        description = find_description(row.judgements, site.descriptions)
        return Entry(
            row=row,
            place=place,
            mark=marks.get(key),
            links=_links(site, places, row.judgements, kept=is_kept),
            co_authors=description.co_authors if description else (),
            note=description.note if description else "",
        )

    yield from map(entry, table.rows, summary.places)
    rows = {(row.login, row.digest) for row in table.rows}
    for key, record in {(one.login, one.digest): one for one in table.records}.items():
        if key not in rows:
            yield entry(former_row(record, table.rows[0]))


def _links(site: Site, places: Mapping[str, Path], judgements: Sequence[Judgement], *, kept: bool) -> tuple[str, ...]:
    """A URL for each judgement, relative to the page; without a repository on GitHub only kept judgements have one."""
    if kept:
        return (*(f"judgement-{index}.json" for index in range(1, len(judgements))), _NEWEST)
    return tuple(raw_url(site.repository, places[one.checksum]) for one in judgements) if site.repository else ()


def _rivals(table: Standings, summary: BoardSummary, entry: Entry, ahead: Row | None) -> list[ComparedSubmission]:
    """First place (or second, for first place itself), and the record that this file broke, or else the row ahead."""
    first = table.rows[0]
    which, best = ("second", table.rows[1:2]) if first is entry.row else ("first", table.rows[:1])
    rivals = [_rival(entry, f"{which} {'row' if row.provisional else 'place'}", row.file) for row in best]
    if former := _record_before(table, summary, entry):
        rivals.append(_rival(entry, "previous record", former.file, came_before=True))
    elif ahead and ahead is not first:
        rivals.append(_rival(entry, "next row ahead", ahead.file))
    return rivals


def _rival(entry: Entry, name: str, file: PooledFile, *, came_before: bool = False) -> ComparedSubmission:
    whose = "the author’s other file" if file.login.lower() == entry.row.login.lower() else f"{file.login}’s"
    return ComparedSubmission(name=name, whose=whose, file=file, came_before=came_before)


def _record_before(table: Standings, summary: BoardSummary, entry: Entry) -> Record | None:
    pairs = zip(summary.marks[1:], table.records[1:], table.records, strict=False)
    return next((before for mark, now, before in pairs if mark is entry.mark and before.digest != now.digest), None)


def _comparisons(
    entry: Entry, rivals: Sequence[ComparedSubmission], columns: Sequence[Column], ranking_by: Ranking
) -> list[CaseComparison]:
    theirs = list(zip(*([case.time_us.value for case in rival.file.cases] for rival in rivals), strict=True))
    worst = _worst_case(entry.row.cases, rivals[0].file.cases, ranking_by) if rivals else None
    rows = zip(columns, entry.row.cases, theirs or [()] * len(columns), strict=True)
    return [CaseComparison(column=column, case=case, theirs_us=us, worst=case is worst) for column, case, us in rows]


def _worst_case(ours: Sequence[CaseTime], theirs: Sequence[CaseTime], ranking_by: Ranking) -> CaseTime | None:
    """The case that costs our score most, by the board's ranking; None if no case is slower."""
    costs = case_costs([case.time_us.value for case in ours], [case.time_us.value for case in theirs], ranking_by)
    return ours[costs.index(max(costs))] if max(costs) > 0 else None


def _changes(
    site: Site, rivals: Sequence[ComparedSubmission], source: str | None
) -> Iterator[tuple[ComparedSubmission, Markup | None]]:
    """From the predecessor's file to this one, and from this one to those of other rows, if the files are available.

    The diff is None if the files differ in too many lines.
    """
    for rival in sorted(rivals, key=lambda one: not one.came_before):
        theirs = site.sources(rival.file.newest)
        if source is not None and theirs is not None:
            old, new = (theirs, source) if rival.came_before else (source, theirs)
            yield rival, render_diff(old, new)


def _sample_charts(judgement: Judgement, columns: Sequence[Column]) -> list[Strip]:
    return [
        strip(
            column.label.text,
            [
                StripSide("this file, as measured", timing.submission, timing.ratio.scaled(timing.anchor_us)),
                StripSide("anchor, as measured", timing.anchor),
            ],
        )
        for column, case in zip(columns, judgement.benchmarks, strict=True)
        if (timing := case.timing)
    ]


def _crowning(table: Standings, summary: BoardSummary, entry: Entry) -> Judgement | None:
    """The judgement whose duel won first place; the newest one if there are several."""
    records = [record.judgement for mark, record in zip(summary.marks, table.records, strict=True) if mark.by_duel]
    mine = (entry.row.login, entry.row.digest)
    return next((one for one in reversed(records) if (one.submission.login, one.submission.digest) == mine), None)


def _duel_charts(judgement: Judgement) -> list[Strip]:
    duel = judgement.duel
    assert duel
    cases = duel.cases[:MOST_DUEL_CHARTS]
    return [
        strip(
            label.text,
            [
                StripSide(judgement.submission.login, case.challenger),
                StripSide(f"{duel.opponent}, leader then", case.champion),
            ],
            one_axis=True,
        )
        for label, case in zip(case_labels([case.params for case in cases]), cases, strict=True)
    ]
