"""A submission: where it stands, where it loses time against the first, its samples, its code, how it was judged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from markupsafe import Markup

from harness.judgement import Judgement
from harness.stats import Interval
from harness.task import Board
from scripts.pages.board import Column, columns_of
from scripts.pages.charts import Side, Strip, strip
from scripts.pages.code import render_code, render_diff
from scripts.pages.paths import file_url, ledger_url, pull_url, submission_path
from scripts.pages.render import data, page
from scripts.pages.site import Site
from scripts.pages.summary import BoardSummary, Mark, Place, case_facts
from scripts.pages.words import case_labels
from scripts.standings import CaseTime, Row, Standings, case_times

JUDGEMENTS_BESIDE = 50
"""So many rows of a board, and so many of its latest records, have their judgements beside their pages, with every
sample and seed.  Those of the others lie in the ledger: a site on GitHub Pages may hold 1 GB."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A submission that has a page: it stands on its board, or was first there once."""

    login: str
    digest: str
    score_us: Interval
    cases: tuple[CaseTime, ...]
    judgements: tuple[Judgement, ...]
    place: Place | None
    mark: Mark | None
    keeps_judgements: bool


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One benchmark of a submission beside the first place's; `worst` is where the most is lost, in logarithms."""

    column: Column
    case: CaseTime
    first_us: float
    worst: bool

    @property
    def ratio(self) -> float:
        return self.case.time_us.value / self.first_us

    @property
    def limit(self) -> float | None:
        floor = self.column.floor_us
        return floor / self.case.time_us.value if floor else None


@dataclass(frozen=True, kw_only=True)
class Change:
    """What changed between another file and this one.  `lines` is None where they are too long to be compared."""

    title: str
    href: str
    lines: Markup | None


def submission_pages(site: Site, table: Standings, summary: BoardSummary) -> Iterator[tuple[str, str]]:
    """A page for every row and every former first, what it says as JSON, and their judgements."""
    columns = columns_of(site, table)
    for entry in _entries(table, summary):
        path = partial(submission_path, table.board, entry.login, entry.digest)
        yield _page(site, table, summary, entry, columns)
        yield data(path("submission.json"), _facts(table.board, entry))
        if entry.keeps_judgements:
            for index, judgement in enumerate(entry.judgements, start=1):
                name = "judgement.json" if judgement is entry.judgements[-1] else f"judgement-{index}.json"
                yield path(name), judgement.model_dump_json() + "\n"


def _facts(board: Board, entry: Entry) -> dict[str, Any]:
    """A submission for scripts; `judgement` is None where its judgements lie in the ledger only."""
    judgement = "judgement.json" if entry.keeps_judgements else None
    if entry.place:
        return entry.place.facts | {"judgement": judgement}
    return {
        "task": board.task.name,
        "gpu": board.gpu,
        "rank": None,
        "login": entry.login,
        "score_us": entry.score_us.model_dump(),
        "digest": entry.digest,
        "cases": [case_facts(case) for case in entry.cases],
        "judgement": judgement,
    }


def _page(
    site: Site, table: Standings, summary: BoardSummary, entry: Entry, columns: Sequence[Column]
) -> tuple[str, str]:
    board, newest, first = table.board, entry.judgements[-1], table.rows[0]
    source = site.sources(newest)
    is_first = bool(entry.place and entry.place.champion)
    return page(
        "submission.html",
        submission_path(board, entry.login, entry.digest),
        site=site,
        as_of=summary.as_of,
        board=board,
        entry=entry,
        judgement=newest,
        first=None if is_first else summary.places[0],
        comparisons=_comparisons(entry, first, columns),
        samples=_sample_charts(newest),
        unsteady=[case.timing.note for case in newest.benchmarks if case.timing and not case.timing.steady]
        + [case.told.note for case in newest.benchmarks if case.told and case.told.note],
        dueled=(dueled := _dueled(entry)),
        duels=_duel_charts(dueled) if dueled else [],
        code=None if source is None else render_code(source, board.task.submission_name, anchors=True),
        file_url=file_url(site.repository, board, newest),
        ledger_url=ledger_url(site.repository, newest),
        pull_url=pull_url(site.repository, newest),
        changes=list(_changes(site, table, summary, entry, source)),
    )


def _entries(table: Standings, summary: BoardSummary) -> list[Entry]:
    marks = {(mark.login, mark.digest): mark for mark in summary.marks}
    latest = {(mark.login, mark.digest) for mark in summary.marks[-JUDGEMENTS_BESIDE:]}
    standing = {
        (row.login, row.digest): Entry(
            login=row.login,
            digest=row.digest,
            score_us=row.score_us,
            cases=row.cases,
            judgements=row.judgements,
            place=place,
            mark=marks.get((row.login, row.digest)),
            keeps_judgements=place.rank <= JUDGEMENTS_BESIDE or (row.login, row.digest) in latest,
        )
        for row, place in zip(table.rows, summary.places, strict=True)
    }
    former = {
        (record.login, record.digest): Entry(
            login=record.login,
            digest=record.digest,
            score_us=record.score_us,
            cases=case_times([record.judgement], table.nominal_us),
            judgements=(record.judgement,),
            place=None,
            mark=marks[record.login, record.digest],
            keeps_judgements=(record.login, record.digest) in latest,
        )
        for record in table.records
    }
    return list((former | standing).values())


def _comparisons(entry: Entry, first: Row, columns: Sequence[Column]) -> list[Comparison]:
    ratios = [ours.time_us.value / theirs.time_us.value for ours, theirs in zip(entry.cases, first.cases, strict=True)]
    worst = max(ratios)
    return [
        Comparison(column=column, case=ours, first_us=theirs.time_us.value, worst=ratio == worst and worst > 1)
        for column, ours, theirs, ratio in zip(columns, entry.cases, first.cases, ratios, strict=True)
    ]


def _changes(site: Site, table: Standings, summary: BoardSummary, entry: Entry, source: str | None) -> Iterator[Change]:
    """From the record that this file broke to it, and from it to the first place; where the files are at hand."""
    first = table.rows[0]
    for mark, record, before in zip(summary.marks[1:], table.records[1:], table.records, strict=False):
        if mark is entry.mark and before.digest != record.digest:
            yield from _change(site, f"From the record before, {before.login}’s", before.judgement, source, False)
    if first.digest != entry.digest:
        yield from _change(site, f"To the first place, {first.login}’s", first.judgements[-1], source, True)


def _change(site: Site, title: str, other: Judgement, source: str | None, is_newer: bool) -> Iterator[Change]:
    theirs = site.sources(other)
    if source is None or theirs is None:
        return
    old, new = (source, theirs) if is_newer else (theirs, source)
    login, digest = other.submission.login, other.submission.digest
    yield Change(title=title, href=f"../../{login}/{digest[:12]}/index.html", lines=render_diff(old, new))


def _sample_charts(judgement: Judgement) -> list[Strip]:
    timings = [case.timing for case in judgement.benchmarks if case.timing]
    titles = case_labels([case.params for case in judgement.benchmarks if case.timing])
    return [
        strip(
            title,
            [
                Side(label="this file", runs=timing.submission, interval=timing.ratio.scaled(timing.anchor_us)),
                Side(label="anchor", runs=timing.anchor),
            ],
        )
        for title, timing in zip(titles, timings, strict=True)
    ]


def _dueled(entry: Entry) -> Judgement | None:
    """The judgement whose duel is told: the newest that had one."""
    return next((one for one in reversed(entry.judgements) if one.duel), None)


def _duel_charts(judgement: Judgement) -> list[Strip]:
    duel = judgement.duel
    assert duel
    return [
        strip(
            title,
            [
                Side(label=judgement.submission.login, runs=case.challenger),
                Side(label=f"{duel.opponent}, then first", runs=case.champion),
            ],
            one_axis=True,
        )
        for title, case in zip(case_labels([case.params for case in duel.cases]), duel.cases, strict=True)
    ]
