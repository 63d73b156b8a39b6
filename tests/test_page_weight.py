"""The bytes that a browser loads for a page, gzipped as on the network."""

import gzip
import random
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from harness.records.fields import CaseKind
from harness.records.judgement import Judgement
from harness.task.task import Board, load_task
from scripts.ledger.moderation import Moderated
from scripts.pages.board import board_pages
from scripts.pages.landing import landing_pages
from scripts.pages.parts.render import SITE
from scripts.pages.parts.site import Site, read_guides
from scripts.pages.parts.summary import summary_of
from scripts.pages.publishing.load import boards_of, ranked
from scripts.standings.standings import standings
from tests.season.cast import logins
from tests.season.season import END, Size, make_season
from tests.test_publish import PEAKS, WORK, judged, task_folder

LANDING_KB, BOARD_KB, NAMES_KB, ROWS = 100, 400, 40, 2000
SHARED = Site(
    title="Kernel Cup",
    now=END,
    sources=lambda _: None,
    guides=read_guides(SITE / "pages"),
    repository="https://github.com/kernels/cup",
    address="https://kernels.github.io/cup/",
)


def weight_kb(page: str) -> float:
    """The weight of a page and of every asset that it names, each compressed separately."""
    named = {link.rpartition("/")[2] for link in re.findall(r' (?:src|href)="([^"]*)"', page)}
    assets = [path for path in (SITE / "assets").iterdir() if path.name in named]
    assert {"style.css", "site.js"} <= {path.name for path in assets}
    files = [page.encode(), *(path.read_bytes() for path in assets)]
    return sum(len(gzip.compress(file, compresslevel=6)) for file in files) / 1000


def test_the_landing_page_of_forty_boards_is_light(tmp_path: Path) -> None:
    season = make_season(tmp_path / "season", Size(tasks=8, gpus=5, authors=60, judgements=240))
    tables = [
        ranked(files, season.ledger, Moderated(), judges=lambda _: True, allow_unwalled=False, now=END).table
        for files in boards_of(season.tasks, season.ledger, [])
    ]
    site = replace(SHARED, gpus=season.settings.gpus)
    boards = [summary_of(site, table) for table in tables]
    assert len(boards) == 40 and sum(len(board.places) for board in boards) > 100
    _, page = next(landing_pages(site, boards, [], None))
    assert "Latest records" in page
    assert weight_kb(page) < LANDING_KB


def entered(board: Board, count: int) -> Iterator[Judgement]:
    """Judgements of this many authors, no two alike, varied from a few complete ones."""
    dice = random.Random(7)
    whole = [judged(board, f"author-{index}", 1 + index / 8) for index in range(8)]
    for index, login in enumerate(logins(count, dice)):
        one = whole[index % len(whole)]
        submission = one.submission.model_copy(
            update={"login": login, "digest": dice.randbytes(32).hex(), "pull_request": 10 + index, "lines": dice.randint(9, 400)}
        )  # fmt: skip
        cases = tuple(
            case.model_copy(
                update={
                    "timing": case.timing.model_copy(update={"ratio": case.timing.ratio.scaled(dice.uniform(1, 9))})
                }
            )
            for case in one.cases
            if case.kind is CaseKind.BENCHMARK and case.timing
        )
        at = one.finished_at + timedelta(hours=index)
        yield one.model_copy(update={"submission": submission, "cases": cases, "finished_at": at})


def test_a_board_of_two_thousand_rows_is_light_enough_for_a_phone(tmp_path: Path) -> None:
    board = load_task(task_folder(tmp_path, yml=WORK)).board("CPU")
    table = standings(board, [*entered(board, ROWS)])
    assert len(table.rows) == ROWS
    site = replace(SHARED, gpus=PEAKS)
    pages = dict(board_pages(site, table, summary_of(site, table), [], [], []))
    page = pages["vectoradd/CPU/index.html"]
    assert page.count("<tr data-login=") == 2 * ROWS
    assert weight_kb(page) < BOARD_KB
    # What a submission's page loads before a comparison with another.
    assert pages["vectoradd/CPU/rows.json"].count('"rank"') == ROWS
    assert len(gzip.compress(pages["vectoradd/CPU/rows.json"].encode(), compresslevel=6)) / 1000 < NAMES_KB
