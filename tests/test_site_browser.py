"""The built site in a real browser: every page kind, both themes, phone to desk, with and without JavaScript."""

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.task import load_task
from scripts.ledger import Ledger
from scripts.publish import build_site
from scripts.serve import site_server, url_of
from tests.test_publish import SCRIPT, judged, season, task_folder

CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed: apt-get install chromium")
sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    tasks = [load_task(task_folder(folder / "tasks", name)) for name in ("vectoradd", "matmul")]
    ledger = Ledger(folder / "ledger")
    hostile = {"message": SCRIPT, "log": SCRIPT * 40, "note": SCRIPT, "steady": False, "run_url": "javascript:alert(1)"}
    mallory = judged(tasks[0].board("CPU"), "m" * 39, 0.7, day=32, machine={"device": SCRIPT}, **hostile)
    for index, judgement in enumerate([*season(tasks[0].board("CPU")), mallory]):
        ledger.append(judgement, f"r{index}")
    code = f"x = 1  # {SCRIPT}\n" + "y = " + "1 + " * 200 + "1\n"
    # Below a sub-path, as GitHub Pages serves a project's site.
    build_site(tasks, ledger, folder / "pages" / "cup", submissions=lambda _: code, title="Kernel Cup", base_path="cup")
    (folder / "pages" / "index.html").write_text("")
    return folder / "pages" / "cup"


@pytest.fixture(scope="module")
def browser() -> Iterator["sync_api.Browser"]:
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def url(site: Path) -> Iterator[str]:
    with site_server(site.parent) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield url_of(server) + "cup/"
        server.shutdown()


def one_of_each(site: Path) -> dict[str, str]:
    """A page of each kind, and the awkward ones: an empty board, a hostile author."""
    found = {
        "landing": "index.html",
        "board": "vectoradd/CPU/index.html",
        "empty board": "matmul/CPU/index.html",
        "author": "authors/edsger/index.html",
        "no such page": "404.html",
    }
    for kind, login in (("submission", "edsger"), ("hostile submission", "m" * 39)):
        page = next((site / "vectoradd/CPU" / login).glob("*/index.html"))
        found[kind] = page.relative_to(site).as_posix()
    return found


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 768, 1440])
def test_no_page_overflows_or_complains(
    browser: "sync_api.Browser", site: Path, url: str, theme: str, width: int
) -> None:
    with browser.new_context(viewport={"width": width, "height": 800}, color_scheme=theme) as context:
        page = context.new_page()
        complaints: list[str] = []
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(dialog.message))
        # An icon still loading when the next page is asked for is aborted, which is nobody's fault.
        page.on("requestfailed", lambda r: complaints.append(r.url) if r.failure != "net::ERR_ABORTED" else None)
        for kind, path in one_of_each(site).items():
            page.goto(url + path)
            page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
            assert page.evaluate("document.documentElement.scrollWidth") <= width, kind
            assert not complaints, kind


def test_the_styles_load_from_a_server_and_from_a_disk(browser: "sync_api.Browser", site: Path, url: str) -> None:
    with browser.new_context(java_script_enabled=False, color_scheme="dark") as context:
        page = context.new_page()
        for base in (url, site.as_uri() + "/"):
            page.goto(base + one_of_each(site)["submission"])
            body = page.locator("body")
            assert body.evaluate("element => getComputedStyle(element).backgroundColor") == "rgb(15, 18, 23)"


def test_one_can_walk_from_the_landing_page_to_a_submission_and_its_author(
    browser: "sync_api.Browser", site: Path
) -> None:
    with browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto((site / "index.html").as_uri())
        page.get_by_role("link", name="Vector addition").first.click()
        page.locator("table.standings tr.champion td.score a").click()
        assert page.locator("h1").inner_text() == "edsger"
        page.locator("h1 a").click()
        assert page.url == (site / "authors/edsger/index.html").as_uri()
        page.get_by_role("link", name="Kernel Cup").click()
        assert page.url == (site / "index.html").as_uri()


def test_nothing_is_asked_of_another_host(browser: "sync_api.Browser", site: Path, url: str) -> None:
    asked: list[str] = []
    with browser.new_context() as context:
        page = context.new_page()
        page.on("request", lambda request: asked.append(request.url))
        for path in one_of_each(site).values():
            page.goto(url + path)
    assert asked
    assert not [one for one in asked if not one.startswith(url)]
