"""The pull request's comments as people see them, on a phone and a desktop: renders each kind and checks the picture.

To keep the screenshots: `pytest tests/test_comment_pictures.py --basetemp=pictures`.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from harness.judge import judge
from harness.records.fields import Mode
from harness.records.judgement import Judgement
from harness.task.submission import Submission
from harness.task.task import load_task
from scripts.bot.admission.path_rule import Misplaced, classify, entry_path
from scripts.bot.comment.check_report import remarks
from scripts.bot.comment.comment_text import BoardSection, PullComment
from scripts.bot.comment.judgement_section import render
from scripts.bot.comment.markers import FileFacts, Notice
from scripts.bot.comment.sections import done_section, queued_section
from scripts.github.pulls import ChangedFile
from scripts.ledger.moderation import Action, Moderation
from scripts.ledger.request import Request, make_id
from scripts.standings.roofline import Roofline
from scripts.standings.standings import standings
from tests import chromium
from tests.github_page import page_of
from tests.season.season import Size, make_season
from tests.test_report import BOARD as MADE_UP
from tests.test_report import hostile

pytestmark = pytest.mark.skipif(not chromium.PROGRAM, reason=chromium.MISSING)
sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")

TASKS = Path(__file__).parent.parent / "tasks"
KEPT = Path(__file__).parent / "comments"
PHONE, DESK = 360, 1012
UNCLOSED = b"import torch\n\n\ndef custom_kernel(data:\n    return data\n"
HEAD = "0a1b2c3d4e5f60718293a4b5c6d7e8f901234567"


# The comments.


def request(task: str, gpu: str, login: str, mode: Mode = Mode.RANKED) -> Request:
    return Request(
        id=make_id(12, HEAD, gpu, mode), user_id=7, login=login, pull_request=12, head_sha=HEAD, blob_sha="b" * 40,
        task=task, gpu=gpu, mode=mode, asked_at=datetime(2026, 11, 21, 12, 3, tzinfo=UTC), asked_by=7,
    )  # fmt: skip


def of_boards(task: str, login: str, *boards: BoardSection) -> PullComment:
    return PullComment(file=FileFacts(path=entry_path(task, login), head_sha=HEAD, is_draft=False), boards=boards)


def reported(judgement: Judgement, report: str) -> PullComment:
    asked = request(judgement.task, judgement.gpu, judgement.submission.login, judgement.mode)
    return of_boards(judgement.task, asked.login, done_section(asked, judgement.verdict, report))


def ranked() -> dict[str, PullComment]:
    """Authors of a season: one who improved and is not first, the first, and one with two boards."""
    with TemporaryDirectory() as folder:
        season = make_season(Path(folder) / "season", Size(tasks=1, gpus=2, authors=12, judgements=90))
        board = season.tasks[0].board("H100")
        judged = season.ledger.judgements(board.task.name, board.gpu).judgements
    tables = {one.checksum: standings(board, judged[: number + 1]) for number, one in enumerate(judged)}
    roofline = Roofline(work=board.task.work, gpu=season.settings.gpus["H100"])
    found: dict[str, PullComment] = {}
    for one in reversed(judged):
        table = tables[one.checksum]
        row = table.find_row(one.submission.login)
        own = [other for other in judged if other.submission.login == one.submission.login]
        if not row or len(own) < 3:
            continue
        kind = "first" if row.champion else "behind" if row.digest == one.submission.digest else "no better"
        found.setdefault(kind, reported(one, render(one, board, table, own, None, roofline)))
        found.setdefault("held", reported(one, render(one, board, table, own, held(one), roofline)))
    waiting = request(board.task.name, "CPU", "edsger")
    both = replace(found["behind"], boards=(*found["behind"].boards, queued_section(waiting)))
    return found | {"one of two boards": both}


def held(judgement: Judgement) -> Moderation:
    why = "it would be first with a time measured inside its own process"
    return Moderation(
        id="held-1", action=Action.HOLD, judgement=judgement.checksum, reason=why, by=1, at=judgement.finished_at
    )


def not_accepted() -> dict[str, PullComment]:
    """Judged for real: the compile error now; the others are recorded."""
    board = load_task(TASKS / "vectoradd").board("CPU")
    judged = {path.stem: Judgement.from_json(path.read_bytes()) for path in sorted(KEPT.glob("*.json"))}
    judged["compile_error"] = judge(board, Submission(login="bob", source=UNCLOSED), Mode.RANKED)
    return {name: reported(one, render(one, board, standings(board, []))) for name, one in judged.items()}


def not_judged() -> dict[str, PullComment]:
    queued = of_boards("vectoradd", "bob", queued_section(request("vectoradd", "CPU", "bob")))
    stray = classify([ChangedFile(path="submissions/vectoradd/bob/<b>fast</b>.py", status="added")], "bob")
    assert isinstance(stray, Misplaced)
    refusal = Notice(text=f"**Not judged.** {stray.reason}")
    return {"queued": queued, "refused": PullComment(notice=refusal), "refused later": replace(queued, notice=refusal)}


@cache
def comments() -> dict[str, str]:
    """A comment of each kind, as Markdown."""
    made = ranked() | not_accepted() | not_judged()
    made["hostile"] = reported(hostile(), render(hostile(), MADE_UP, None))
    return {name: comment.render() for name, comment in made.items()}


# Their pictures.


@pytest.fixture(scope="module")
def browser() -> Iterator["sync_api.Browser"]:
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium.PROGRAM, args=chromium.FLAGS)
        yield browser
        browser.close()


KINDS = (
    "behind", "first", "no better", "one of two boards", "wrong_answer", "run_time_error", "compile_error", "queued",
    "refused", "refused later", "held", "hostile",
)  # fmt: skip


@pytest.fixture(scope="module", params=[PHONE, DESK], ids=["phone", "desk"])
def shown(request: pytest.FixtureRequest, browser: "sync_api.Browser") -> Iterator["Shown"]:
    with browser.new_context(viewport={"width": request.param, "height": 800}) as context:
        yield Shown(context.new_page(), request.param)


class Shown:
    """A page with one comment, and what happened while it was loaded."""

    def __init__(self, page: "sync_api.Page", width: int) -> None:
        self.page, self.width = page, width
        self.complaints: list[str] = []
        page.on("dialog", lambda dialog: (self.complaints.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: self.complaints.append(request.url))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def open(self, kind: str) -> None:
        self.complaints.clear()
        self.page.set_content(page_of({"commented": comments()[kind]}))


def test_every_kind_of_comment_is_tested() -> None:
    assert sorted(comments()) == sorted(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_a_comment_fits_the_screen(shown: Shown, kind: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    shown.open(kind)
    shown.page.screenshot(path=_picture(tmp_path_factory, kind, shown.width), full_page=True)
    shown.page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert shown.page.evaluate("document.documentElement.scrollWidth") <= shown.width
    outside = """[...document.querySelectorAll('.body *')].filter(one => !one.closest('table, pre')
        && one.getBoundingClientRect().right > innerWidth).map(one => one.outerHTML.slice(0, 99))"""
    assert shown.page.evaluate(outside) == []


def _picture(folders: pytest.TempPathFactory, kind: str, width: int) -> Path:
    folder = folders.getbasetemp() / "pictures"
    folder.mkdir(exist_ok=True)
    return folder / f"{kind.replace(' ', '_')}-{width}.png"


def test_a_desktop_shows_all_times_and_a_phone_the_first_without_scrolling(shown: Shown) -> None:
    shown.open("behind")
    table, heads = shown.page.locator("table").first, shown.page.locator("th")
    if shown.width == DESK:
        assert table.evaluate("one => one.scrollWidth <= one.clientWidth")
    box, times = table.bounding_box(), heads.nth(1).bounding_box()
    assert box and times and times["x"] + times["width"] <= box["x"] + box["width"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_participants_words_are_rendered_as_plain_text(shown: Shown, kind: str) -> None:
    shown.open(kind)
    assert shown.complaints == []
    found = shown.page.evaluate("[...document.querySelectorAll('.body *')].map(one => one.localName)")
    assert set(found) <= {
        "p", "strong", "h3", "code", "pre", "table", "thead", "tbody", "tr", "th", "td", "sub", "details", "summary",
        "a", "div", "span", "br",
    }  # fmt: skip
    links = shown.page.evaluate("[...document.querySelectorAll('.body a')].map(one => one.href)")
    assert not links
    attributes = shown.page.evaluate(
        "[...document.querySelectorAll('.body *')].flatMap(one => one.getAttributeNames())"
    )
    assert set(attributes) <= {"class", "style", "open"}


def test_the_test_page_detects_html_that_gets_through(shown: Shown) -> None:
    shown.page.set_content(page_of({"forged": "<img src=x onerror=alert(1)> @everyone"}))
    shown.page.wait_for_timeout(50)
    assert shown.complaints and shown.page.locator(".body img, .body a.made").count() == 2


def test_the_lines_at_fault_are_marked() -> None:
    judgement = judge(load_task(TASKS / "vectoradd").board("CPU"), Submission(login="bob", source=UNCLOSED), Mode.TEST)
    (remark,) = remarks(judgement, request("vectoradd", "CPU", "bob"))
    assert (remark.path, remark.line) == ("submissions/vectoradd/bob/submission.py", 4)
    assert "was never closed" in remark.message and remark.title == "compile error (CE)"
