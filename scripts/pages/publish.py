"""The site: standings in, a folder of static pages out.

    index.html                              boards, latest records
    <task>/<gpu>/index.html                 one board: standings, cases, record history, the task
    <task>/<gpu>/_editions/<edition>/       how it stood before its cases or its reference changed
    <task>/<gpu>/<login>/<digest>/          one submission: its times, samples, code, judgements
    authors/<login>/                        one author's rows and records
    guides/<name>/                          each Markdown file of site/pages

Beside every page stands its JSON; beside a board also CSV, a badge and a feed.  All links are relative, so the site
works under any path and from a disk; nothing is loaded from elsewhere.  What a page shows is in `scripts/pages/`;
here it is built: board by board, so that memory holds one board's judgements, into a folder beside `out` that is
swapped in whole.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.task import Task
from scripts.ledger.ledger import Ledger, LedgerFault
from scripts.pages.author import author_pages
from scripts.pages.board import board_pages
from scripts.pages.edition import Edition, edition_pages
from scripts.pages.feeds import board_files, site_files, sitemap
from scripts.pages.landing import landing_pages
from scripts.pages.load import TakenOut, boards_of, in_order, require_free_names
from scripts.pages.render import SITE, page
from scripts.pages.site import Guide, Site, Sources, read_guides
from scripts.pages.submission import submission_pages
from scripts.pages.summary import BoardSummary, summary_of
from scripts.pages.write import swapped_in, write_file
from scripts.settings import Gpu
from scripts.standings import Standings

__all__ = ["Guide", "SiteReport", "Sources", "build_site", "read_guides"]


@dataclass(frozen=True, kw_only=True)
class SiteReport:
    pages: int
    rows: int
    faults: tuple[LedgerFault, ...]
    seconds: float


def build_site(
    tasks: Sequence[Task],
    ledger: Ledger,
    out: Path,
    *,
    submissions: Sources,
    title: str,
    description: str = "",
    notice: str = "",
    repository: str = "",
    address: str = "",
    gpus: Mapping[str, Gpu] | None = None,
    marks_unmerged: bool = False,
    allow_unwalled: bool = False,
    base_path: str = "/",
) -> SiteReport:
    """Write the whole site to `out`, or leave what was there.

    Args:
        description: what the competition is about, in Markdown.
        repository: its address on GitHub, for links to pull requests and files: `https://github.com/kernels/cup`.
        address: where the site will be found, for feeds and the sitemap: `https://kernels.github.io/cup/`.
        gpus: peaks by the boards' names, for % of the hardware's limit.
        marks_unmerged: `submissions` holds what was merged, and a row of another file is provisional.
        base_path: where the site will be served; only 404.html, which answers at any depth, needs to know.

    Raises:
        TaskError: a task bears the name of one of the site's own folders.
        PullRankError: `out` holds something that is not such a site.
    """
    started = time.perf_counter()
    require_free_names(tasks)
    site = Site(
        title=title,
        sources=submissions,
        description=description,
        notice=notice,
        guides=read_guides(SITE / "pages"),
        repository=repository.rstrip("/"),
        address=f"{address.rstrip('/')}/" if address else "",
        gpus=gpus or {},
        marks_unmerged=marks_unmerged,
        base_path=f"/{base_path.strip('/')}/".replace("//", "/"),
    )
    faults: list[LedgerFault] = []
    with swapped_in(out) as folder:
        shutil.copytree(SITE / "assets", folder / "assets")
        written, boards = 0, []
        for table, editions, taken_out in boards_of(tasks, ledger, faults, allow_unwalled=allow_unwalled):
            boards.append(summary_of(site, table))
            written += _write(folder, _pages_of_a_board(site, table, boards[-1], editions, taken_out))
        order = in_order(tasks)
        boards.sort(key=lambda one: order[one.board.task.name, one.board.gpu])
        written += _write(folder, _pages_of_all(site, boards, faults))
        _write(folder, sitemap(site, folder))
    rows = sum(len(board.places) for board in boards)
    return SiteReport(pages=written, rows=rows, faults=tuple(faults), seconds=time.perf_counter() - started)


def _pages_of_a_board(
    site: Site,
    table: Standings,
    summary: BoardSummary,
    editions: Sequence[Edition],
    taken_out: Sequence[TakenOut],
) -> Iterator[tuple[str, str]]:
    yield from board_pages(site, table, summary, editions, taken_out)
    yield from edition_pages(site, editions)
    yield from board_files(site, summary)
    yield from submission_pages(site, table, summary)


def _pages_of_all(
    site: Site, boards: Sequence[BoardSummary], faults: Sequence[LedgerFault]
) -> Iterator[tuple[str, str]]:
    as_of = max((board.as_of for board in boards if board.as_of), default=None)
    yield from landing_pages(site, boards, faults, as_of)
    yield from site_files(site, boards)
    yield from author_pages(site, boards)
    for guide in site.guides:
        yield page("guide.html", guide.path, site=site, guide=guide, as_of=as_of)
    yield page("404.html", "404.html", site=site, root=site.base_path, as_of=as_of)


def _write(folder: Path, pages: Iterable[tuple[str, str]]) -> int:
    """Write files as they are made; how many of them are pages."""
    written = 0
    for path, text in pages:
        write_file(folder / path, text)
        written += path.endswith(".html")
    return written
