"""Build the site: standings in, a folder of static pages out.

    index.html                              boards, latest records
    <task>/<gpu>/index.html                 one board: standings, cases, record history, the task
    <task>/<gpu>/_editions/<edition>/       its standings before the next edition began
    <task>/<gpu>/<login>/<digest>/          one submission: its times, samples, code, judgements
    authors/<login>/                        one author's rows, history and ban
    machines/                               how steadily the machines ran their anchors
    hacks/                                  what maintainers have disqualified, if there is any
    guides/<name>/                          each Markdown file of site/pages
    results.*, cases.*                      all rows of all boards, and their cases, as CSV and Parquet
    records.*, judgements.*                 every record and every ranked judgement, including earlier editions

Each page but hacks/ is also written as JSON; a board also has CSV, a badge and a feed.  All links are relative, so the
site works under any path and from a disk; it loads nothing from other hosts.  The modules of `scripts/pages/` make the
pages; this one builds the site board by board, in parallel, in a folder next to `out` that replaces `out` in one step.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from harness.task.task import Task
from scripts.competition.boards import shown
from scripts.ledger.ledger import Ledger, LedgerFault
from scripts.ledger.moderation import Moderated
from scripts.pages.author import Author, author_pages, authors_of, bans_by_login
from scripts.pages.board import board_pages
from scripts.pages.edition import FormerPlace, edition_pages, former_places
from scripts.pages.feeds import board_files, feed_of_all, sitemap
from scripts.pages.hacks import Hack, hack_pages, hacks_of
from scripts.pages.landing import landing_pages
from scripts.pages.machines import Reading, machine_pages
from scripts.pages.parts.render import SITE, data, environment, page
from scripts.pages.parts.results import results
from scripts.pages.parts.site import Site, read_guides
from scripts.pages.parts.summary import BoardSummary, Mark, marks_of, summary_of
from scripts.pages.parts.tables import TableRow
from scripts.pages.parts.words import count
from scripts.pages.parts.write import swapped_in, write_file
from scripts.pages.picture import board_picture
from scripts.pages.publishing.load import BoardFiles, Ranked, boards_of, notes_of_all, ranked
from scripts.pages.publishing.pool import processes_for, spread
from scripts.pages.submission import submission_pages
from scripts.standings.standings import Standings

AUTHORS_AT_ONCE = 64
"""Authors' pages that one process writes at a time."""
MOST_NAMED = 5
"""Rows without a file that a line of the report names."""


@dataclass(frozen=True, kw_only=True)
class SiteReport:
    pages: int
    rows: int
    faults: tuple[LedgerFault, ...]
    notes: tuple[str, ...]
    seconds: float

    @property
    def lines(self) -> Iterator[str]:
        """Lines for maintainers: files that were left out, and unexpected findings."""
        yield from (f"left out: {fault}" for fault in self.faults)
        yield from (f"odd: {note}" for note in self.notes)

    @property
    def facts(self) -> dict[str, Any]:
        """The report for scripts."""
        return {
            "pages": self.pages,
            "rows": self.rows,
            "faults": [fault.facts for fault in self.faults],
            "notes": self.notes,
            "seconds": self.seconds,
        }


def build_site(
    tasks: Sequence[Task], ledger: Ledger, out: Path, site: Site, *, allow_unwalled: bool = False
) -> SiteReport:
    """Write the whole site to `out`; on failure `out` stays as it was.

    Args:
        site: its guides and descriptions are read here.  A board has a page if a machine judges it, or if it has
            judgements.

    Raises:
        LedgerError: the ledger's judgements cannot be read.
        PullRankError: `out` is not a PullRank site, or cannot be written.
    """
    started = time.perf_counter()
    ledger.require_judgements()
    tasks = [shown(task, site.gpus, ledger) for task in tasks]
    unreadable: list[LedgerFault] = []
    site = replace(
        site,
        repository=site.repository.rstrip("/"),
        address=f"{site.address.rstrip('/')}/" if site.address else "",
        guides=read_guides(SITE / "pages"),
        descriptions=ledger.descriptions(unreadable),
    )
    with swapped_in(out) as folder:
        _write(folder, ((f"assets/{path.name}", path.read_bytes()) for path in (SITE / "assets").iterdir()))
        decisions, accounts = ledger.moderations(), ledger.accounts()
        # These faults come first: an unreadable decision puts a removed row back on its board.
        faults = [*decisions.faults, *accounts.faults, *unreadable]
        files = boards_of(tasks, ledger, faults)
        processes = processes_for(sum(len(one.paths) for one in files))
        moderated = Moderated.after(decisions)
        rank = partial(
            ranked, ledger=ledger, moderated=moderated, judges=site.judges, allow_unwalled=allow_unwalled, now=site.now
        )
        build = partial(_build_board, site, rank, folder)
        environment()
        built = list(spread(build, files, processes, size=_size_by_task(files)))
        faults += [fault for one in built for fault in one.faults]
        boards = [one.summary for one in built]
        pages = [page for one in built for page in one.pages]
        readings = [reading for one in built for reading in one.readings]
        banned = dict(bans_by_login((*site.bans, *moderated.banned.values()), accounts.facts))
        former = [place for one in built for place in one.former]
        authors = authors_of(boards, former, banned)
        by_path = sorted(built, key=lambda one: (one.summary.board.task.name, one.summary.board.gpu))
        judged = [row for one in by_path for row in one.judged]
        hacks = [hack for one in built for hack in one.hacks]
        tables = results(boards, [mark for one in built for mark in one.former_marks], judged)
        pages += _write(folder, chain(_pages_of_all(site, boards, authors, readings, hacks, faults), tables))
        pages += chain.from_iterable(
            spread(lambda some: _write(folder, author_pages(site, some)), _shares(authors), processes)
        )
        _write(folder, sitemap(site, pages))
    rows = sum(len(board.places) for board in boards)
    notes = (*notes_of_all(tasks, files, faults), *(note for one in built for note in one.notes))
    seconds = time.perf_counter() - started
    return SiteReport(pages=len(pages), rows=rows, faults=tuple(faults), notes=notes, seconds=seconds)


def _size_by_task(files: Sequence[BoardFiles]) -> Callable[[BoardFiles], tuple[int, str, int]]:
    """The boards of the largest task first: they share files, so highlighted code is cached."""
    of_task: Counter[str] = Counter()
    for one in files:
        of_task[one.board.task.name] += len(one.paths)
    return lambda one: (of_task[one.board.task.name], one.board.task.name, len(one.paths))


@dataclass(frozen=True, kw_only=True)
class _BuiltBoard:
    """The parts of a board that other pages need, and the paths of the pages written."""

    summary: BoardSummary
    former: tuple[FormerPlace, ...]
    former_marks: tuple[Mark, ...]
    judged: list[TableRow]
    readings: list[Reading]
    hacks: list[Hack]
    pages: list[str]
    faults: tuple[LedgerFault, ...]
    notes: tuple[str, ...]


def _build_board(site: Site, rank: Callable[[BoardFiles], Ranked], folder: Path, files: BoardFiles) -> _BuiltBoard:
    found = rank(files)
    summary = summary_of(site, found.table)
    former_marks = [marks_of(site, edition.table) for edition in found.editions]
    pages = _write(folder, _pages_of_a_board(site, found, summary, former_marks))
    notes = (*found.notes, *_files_gone(site, found.table))
    return _BuiltBoard(
        summary=summary,
        former=tuple(former_places(found.editions)),
        former_marks=tuple(chain.from_iterable(former_marks)),
        judged=found.judged,
        readings=found.readings,
        hacks=hacks_of(site, found.table.board, found.taken_out),
        pages=pages,
        faults=found.faults,
        notes=notes,
    )


def _files_gone(site: Site, table: Standings) -> Iterator[str]:
    """A line about the rows whose file is missing: deleted by its author, or not merged yet."""
    gone = [row.login for row in table.rows if site.sources(row.judgements[-1]) is None]
    if gone:
        named = ", ".join(gone[:MOST_NAMED]) + (", …" if len(gone) > MOST_NAMED else "")
        where = f"{table.board.task.name} on {table.board.gpu}"
        rows = count(len(gone), "row", "rows")
        yield f"{where}: the file is missing for {rows} ({named}); deleted, not merged or not readable?"


def _pages_of_a_board(
    site: Site, found: Ranked, summary: BoardSummary, former_marks: Sequence[Sequence[Mark]]
) -> Iterator[tuple[str, str | bytes]]:
    yield from board_pages(site, found.table, summary, found.editions, found.taken_out, found.readings)
    yield from edition_pages(site, found.editions, former_marks, found.places)
    yield from board_files(site, summary)
    yield from board_picture(site, summary)
    yield from submission_pages(site, found.table, summary, found.places, found.claimed)


def _pages_of_all(
    site: Site,
    boards: Sequence[BoardSummary],
    authors: Sequence[Author],
    readings: Sequence[Reading],
    hacks: Sequence[Hack],
    faults: Sequence[LedgerFault],
) -> Iterator[tuple[str, str | bytes]]:
    as_of = max((board.as_of for board in boards if board.as_of), default=None)
    logins = [author.login for author in authors]
    yield from landing_pages(site, boards, faults, as_of, logins, hacks=len(hacks))
    yield from feed_of_all(site, boards)
    yield from machine_pages(site, readings, as_of)
    yield from hack_pages(site, hacks, as_of)
    for guide in site.guides:
        yield page("guide.html", guide.path, site=site, guide=guide, as_of=as_of)
        yield data(guide.path.replace("index.html", "guide.json"), guide.facts)
    yield page("404.html", "404.html", site=site, root=site.base_path, as_of=as_of)


def _shares(authors: Sequence[Author]) -> list[Sequence[Author]]:
    return [authors[start : start + AUTHORS_AT_ONCE] for start in range(0, len(authors), AUTHORS_AT_ONCE)]


def _write(folder: Path, pages: Iterable[tuple[str, str | bytes]]) -> list[str]:
    """Write files as they are made; returns the paths of the HTML pages."""
    written, made = [], set()
    for path, content in pages:
        parent = path.rpartition("/")[0]
        if parent not in made:
            (folder / parent).mkdir(parents=True, exist_ok=True)
            made.add(parent)
        write_file(folder / path, content)
        if path.endswith(".html"):
            written.append(path)
    return written
