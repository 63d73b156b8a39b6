"""The built site in a real browser: every kind of page, both themes, phone to desktop, with and without JavaScript."""

import json
import math
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from benchmarks.paint import SLOW_4G, first_paints_ms
from harness.records.judgement import Judgement
from harness.records.verdict import Verdict
from harness.task.task import load_task
from scripts.common.text import format_us
from scripts.pages.board import board_pages
from scripts.pages.parts.summary import summary_of
from scripts.pages.parts.words import lost
from scripts.pages.publishing.serve import site_server, url_of
from scripts.standings.standings import standings
from tests import chromium
from tests.lively_site import lively_site, one_of_each
from tests.test_page_weight import SHARED, entered
from tests.test_publish import WORK, task_folder

pytestmark = pytest.mark.skipif(not chromium.PROGRAM, reason=chromium.MISSING)
sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")

AXE = Path(__file__).parent / "actions" / "node_modules" / "axe-core" / "axe.min.js"
ROWS = "#ranks tbody tr"
LINES = "cell => { const text = document.createRange(); text.selectNodeContents(cell); return text.getClientRects().length }"
DIGITS = ("3d-printer", "42", "1e5-fan", "0x-hex")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    site = lively_site(tmp_path_factory)
    (site.parent / "index.html").write_text("")
    return site


@pytest.fixture(scope="module")
def browser() -> Iterator["sync_api.Browser"]:
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium.PROGRAM, args=chromium.FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def url(site: Path) -> Iterator[str]:
    with site_server(site.parent) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield url_of(server) + "cup/"
        server.shutdown()


@pytest.fixture
def page(browser: "sync_api.Browser") -> Iterator["sync_api.Page"]:
    with browser.new_context(viewport={"width": 1440, "height": 900}, color_scheme="light") as context:
        yield context.new_page()


def looked_at(site: Path) -> dict[str, str]:
    """A page of each kind, and two that JavaScript changes."""
    pages = one_of_each(site)
    theirs = json.loads((site / "matmul/H100/board.json").read_text())["rows"][1]
    return pages | {
        "comparison": f"{pages['submission of a GPU']}?with={theirs['login']}",
        "what if": f"{pages['board']}?cases=1,3&by=mean&sort=-lines",
    }


def show_all(page: "sync_api.Page", kind: str) -> None:
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    if kind == "comparison":
        page.locator("table.beside").wait_for()
    if kind == "what if":
        assert page.locator("#heat.asked").count() and page.locator("th[aria-sort]").count()


WIDTHS = (320, 360, 768, 1440)
"""The first is that of 1280 pixels at a zoom of 400 %, too."""
EVERYTHING = "{ resultTypes: ['violations'] }"
TARGETS = "{ resultTypes: ['violations'], runOnly: { type: 'rule', values: ['target-size'] } }"
"""axe's rule about the size of what one taps, which it leaves out unless asked."""
COLOURS = "{ resultTypes: ['violations'], runOnly: { type: 'rule', values: ['color-contrast', 'link-in-text-block'] } }"
"""axe's rules about colours: the themes differ in nothing else."""
PARTED = """() => {
    const main = document.querySelector("main").cloneNode(true);
    for (const one of main.querySelectorAll("code, pre, .code, svg")) one.remove();
    return main.textContent.match(/.{9}[0-9] (%|[nµm]?s\\b|[GM]iB|MHz|°C)/g);
}"""


@dataclass
class Look:
    """Observations of a page."""

    asked: list[str]
    complaints: list[str]
    wide: dict[int, int]
    """The page's width, by width of the screen."""
    parted: list[str] | None
    shut_out: list[tuple[str, str, int]]
    """axe's findings in both themes."""


@pytest.fixture(scope="module")
def looks(browser: "sync_api.Browser", site: Path, url: str) -> dict[str, Look]:
    """Each kind of page: loaded once, on a phone, then shown on wider screens and in the dark theme."""
    with browser.new_context(viewport={"width": WIDTHS[0], "height": 800}, color_scheme="light") as context:
        return {kind: look_at(context.new_page(), kind, url + path) for kind, path in looked_at(site).items()}


def look_at(page: "sync_api.Page", kind: str, address: str) -> Look:
    asked: list[str] = []
    complaints: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: (complaints.append(dialog.message), dialog.dismiss()))
    # An icon that is still loading when the page closes is aborted, which is fine.
    page.on("requestfailed", lambda r: complaints.append(r.url) if r.failure != "net::ERR_ABORTED" else None)
    page.goto(address)
    show_all(page, kind)
    shut_out = axe(page, TARGETS)
    wide = {}
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 800})
        wide[width] = page.evaluate("document.documentElement.scrollWidth")
    parted = page.evaluate(PARTED)
    shut_out += axe(page, EVERYTHING)
    page.emulate_media(color_scheme="dark")
    shut_out += axe(page, COLOURS)
    page.close()
    return Look(asked, complaints, wide, parted, shut_out)


def axe(page: "sync_api.Page", options: str) -> list[tuple[str, str, int]]:
    if not AXE.is_file():
        return []
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE.read_text())
    violations = page.evaluate(f"axe.run(document, {options}).then(result => result.violations)")
    return [(one["id"], one["nodes"][0]["html"][:120], len(one["nodes"])) for one in violations]


def test_no_page_overflows_or_logs_an_error(looks: dict[str, Look]) -> None:
    for kind, look in looks.items():
        assert not look.complaints, kind
        assert all(wide <= width for width, wide in look.wide.items()), (kind, look.wide)


@pytest.mark.skipif(not AXE.is_file(), reason="axe-core is not installed: make setup")
def test_axe_finds_no_accessibility_violation_on_any_page(looks: dict[str, Look]) -> None:
    assert not {kind: look.shut_out for kind, look in looks.items() if look.shut_out}


@pytest.mark.skipif(not AXE.is_file(), reason="axe-core is not installed: make setup")
@pytest.mark.parametrize(("theme", "pale"), [("light", "#ccc"), ("dark", "#333")])
def test_axe_finds_text_with_too_little_contrast(page: "sync_api.Page", url: str, theme: str, pale: str) -> None:
    page.emulate_media(color_scheme=theme)
    page.goto(url)
    page.locator("h2").first.evaluate("(head, pale) => head.style.color = pale", pale)
    assert [rule for rule, _, _ in axe(page, COLOURS)] == ["color-contrast"]


def test_no_page_requests_anything_from_another_host(looks: dict[str, Look], url: str) -> None:
    for kind, look in looks.items():
        assert look.asked, kind
        assert not [one for one in look.asked if not one.startswith(url)], kind


def test_no_line_break_separates_a_number_from_its_unit(looks: dict[str, Look]) -> None:
    assert not {kind: look.parted for kind, look in looks.items() if look.parted}


def test_a_phones_header_has_two_lines_and_the_keyboard_reaches_its_last_link(page: "sync_api.Page", url: str) -> None:
    page.set_viewport_size({"width": 360, "height": 640})
    page.goto(url)
    links = page.locator(".top nav a")
    assert links.evaluate_all("links => new Set(links.map(link => link.offsetTop)).size") == 1
    for _ in range(2 + links.count()):  # The skip link, the brand, then these.
        page.keyboard.press("Tab")
    place = links.last.bounding_box()
    assert place
    assert place["x"] >= 0
    assert place["x"] + place["width"] <= 360
    page.locator(".brand").evaluate("brand => brand.append(' of the Long Name')")
    for width in (*WIDTHS, 1024):
        page.set_viewport_size({"width": width, "height": 640})
        brand, switch = page.locator(".brand").bounding_box(), page.locator("button.theme").bounding_box()
        assert brand
        assert switch
        assert brand["y"] < switch["y"] + switch["height"] / 2 < brand["y"] + brand["height"]


def test_the_styles_load_from_a_server_and_from_a_disk(browser: "sync_api.Browser", site: Path, url: str) -> None:
    with browser.new_context(java_script_enabled=False, color_scheme="dark") as context:
        page = context.new_page()
        for base in (url, site.as_uri() + "/"):
            page.goto(base + one_of_each(site)["submission"])
            body = page.locator("body")
            assert body.evaluate("element => getComputedStyle(element).backgroundColor") == "rgb(14, 17, 22)"


def test_a_visitor_without_javascript_can_browse_to_a_submission_and_its_author(
    browser: "sync_api.Browser", site: Path
) -> None:
    with browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto((site / "index.html").as_uri())
        page.get_by_role("link", name="Vector addition on CPU").first.click()
        assert not page.locator(".js-only:visible").count()
        page.locator("table.standings tr.champion td.score a").click()
        assert page.locator("h1").inner_text() == "edsger"
        page.locator("h1 a").click()
        assert page.url == (site / "authors/edsger/index.html").as_uri()
        page.get_by_role("link", name="Kernel Cup").first.click()
        assert page.url == (site / "index.html").as_uri()


def test_no_page_runs_inline_scripts_or_applies_inline_styles(page: "sync_api.Page", url: str) -> None:
    page.goto(url)
    page.evaluate("""() => {
        const script = document.createElement("script");
        script.textContent = "window.ran = true";
        document.body.append(script);
        document.body.insertAdjacentHTML("beforeend", '<p id="styled" style="color: rgb(1, 2, 3)">x</p>');
    }""")
    assert page.evaluate("window.ran") is None
    assert page.locator("#styled").evaluate("element => getComputedStyle(element).color") != "rgb(1, 2, 3)"


def test_a_page_applies_the_chosen_theme_before_its_first_paint(page: "sync_api.Page", url: str) -> None:
    page.goto(url)
    page.get_by_role("button", name="Use the dark theme").click()
    # If a script sees the theme while the page is parsed, so does the first paint.
    page.add_init_script(
        "addEventListener('DOMContentLoaded', () => window.at = document.documentElement.dataset.theme)"
    )
    page.goto(url + "matmul/H100/index.html")
    assert page.evaluate("window.at") == "dark"
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(14, 17, 22)"
    # The shade that shows that one can scroll is lighter than the page: a darker one would be invisible.
    shade = r"pane => Number(getComputedStyle(pane).backgroundImage.match(/rgba\((\d+), \d+, \d+, 0\.\d+\)/)[1])"
    assert page.locator(".scroll").first.evaluate(shade) > 100
    page.get_by_role("button", name="Use the light theme").click()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(253, 253, 252)"


def test_the_standings_sort_by_a_column_and_the_address_keeps_it(page: "sync_api.Page", url: str) -> None:
    def shown() -> list[int]:
        return [int(text) for text in page.locator(f"{ROWS} td:nth-last-child(3)").all_inner_texts()]

    page.goto(url + "matmul/H100/index.html")
    official = page.locator(f"{ROWS} a.login").all_inner_texts()
    page.get_by_role("button", name="Lines").click()
    assert shown() == sorted(shown()) and page.url.endswith("?sort=lines")
    page.get_by_role("button", name="Lines").click()
    assert shown() == sorted(shown(), reverse=True) and page.url.endswith("?sort=-lines")
    page.reload()
    assert shown() == sorted(shown(), reverse=True)
    assert page.locator("th[aria-sort]").get_attribute("aria-sort") == "descending"
    page.get_by_role("button", name="Reset").press("Enter")
    assert page.locator(f"{ROWS} a.login").all_inner_texts() == official and "?" not in page.url
    assert page.locator("#ranks th[data-key=rank] button").evaluate("button => button === document.activeElement")
    assert page.locator(".said").text_content() == "Sorted by rank."


def test_logins_sort_as_words_even_those_that_begin_like_numbers(page: "sync_api.Page", long_board: str) -> None:
    for query in ("author", "-author"):
        page.goto(f"{long_board}?sort={query}")
        logins = page.locator(f"{ROWS} a.login").all_text_contents()
        assert logins == sorted(logins, key=str.lower, reverse=query == "-author") and {*DIGITS} < {*logins}


def test_the_standings_sort_by_every_column(page: "sync_api.Page", site: Path, url: str) -> None:
    rows = json.loads((site / "matmul/H100/board.json").read_text())["rows"]
    page.goto(url + "matmul/H100/index.html")
    keys = page.locator("#ranks th[data-key]").evaluate_all("heads => heads.map(head => head.dataset.key)")
    shown = page.locator(f"{ROWS} td:nth-last-child(5)").all_inner_texts()
    limits = {row["login"]: float(text.split()[0]) for row, text in zip(rows, shown, strict=True)}
    values: dict[str, Callable[[dict[str, Any]], Any]] = {
        "rank": lambda row: row["rank"],
        "author": lambda row: row["login"].lower(),
        "time": lambda row: row["score_us"]["value"],
        "gap": lambda row: row["gap"],
        "limit": lambda row: limits[row["login"]],
        "language": lambda row: row["language"].lower(),
        "lines": lambda row: row["lines"],
        "date": lambda row: row["first_at"],
    }
    assert set(keys) == {*values, "pull"}
    by_login = {row["login"]: row for row in rows}
    for key in values:
        for descending in (True, False) if key == "limit" else (False, True):
            page.locator(f"#ranks th[data-key={key}] button").click()
            order = [values[key](by_login[login]) for login in page.locator(f"{ROWS} a.login").all_inner_texts()]
            assert order == sorted(order, reverse=descending), key


def test_the_tabs_link_every_board_of_the_task_and_mark_the_open_one(
    page: "sync_api.Page", site: Path, url: str
) -> None:
    page.goto(url + "matmul/H100/index.html")
    tabs = page.get_by_role("navigation", name="GPUs of this task").get_by_role("link")
    gpus = tabs.all_inner_texts()
    assert len(gpus) > 1 and set(gpus) == {path.name for path in (site / "matmul").iterdir()}
    for gpu in gpus:
        tabs.get_by_text(gpu, exact=True).click()
        page.wait_for_url(f"{url}matmul/{gpu}/index.html")
        assert page.locator(".tabs [aria-current=page]").all_inner_texts() == [gpu]
        assert f" on {gpu} " in page.title()


def test_a_phone_shows_second_and_third_place_and_every_column(page: "sync_api.Page", site: Path, url: str) -> None:
    page.set_viewport_size({"width": 360, "height": 640})
    page.goto(url)
    rows = json.loads((site / "matmul/H100/board.json").read_text())["rows"]
    card = page.locator(".cards .board").filter(has=page.locator("a[href='matmul/H100/index.html']"))
    second, gap, third = card.locator(".others").inner_text().splitlines()
    assert (second, third) == (rows[1]["login"], rows[2]["login"]) and re.fullmatch(r"\+\d.*(%|×)", gap)
    name, beside = card.locator(".next").first.bounding_box(), card.locator(".next small").bounding_box()
    assert name and beside and beside["x"] > name["x"] + 40, "a gap is next to its name"
    assert card.locator(".near").inner_text().endswith("of limit")
    page.goto(url + "matmul/H100/index.html")
    keys = "heads => heads.filter(head => head.offsetWidth).map(head => head.dataset.key)"
    shown = page.locator("#ranks th[data-key]").evaluate_all(keys)
    assert {"limit", "language", "lines", "date", "pull"} <= set(shown)


def test_a_long_login_pushes_no_time_or_record_out_of_sight(page: "sync_api.Page", url: str) -> None:
    page.goto(url + "hostile/CPU/index.html")
    end = "cells => Math.max(...cells.map(cell => cell.getBoundingClientRect().right))"
    wanted = ["#ranks td[data-v]:not(.soft)", ".records td:nth-child(-n+5)"]
    long = page.locator("#ranks .login").nth(5)
    assert long.get_attribute("title") == long.text_content() == "m" * 39
    for width in WIDTHS[1:]:
        page.set_viewport_size({"width": width, "height": 800})
        for cells in wanted if width < 1440 else ["#ranks td", ".records td"]:
            assert page.locator(cells).evaluate_all(end) < width
        assert long.evaluate("name => name.scrollWidth > name.clientWidth")
    page.goto(url)
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 800})
        assert page.locator(".three").evaluate_all("all => all.every(one => one.scrollWidth <= one.clientWidth)"), width


def test_a_staircases_text_keeps_its_size_at_every_width(page: "sync_api.Page", url: str) -> None:
    page.goto(url + "matmul/H100/index.html")
    size = "svg => 12 * svg.getScreenCTM().a * 16 / parseFloat(getComputedStyle(document.documentElement).fontSize)"
    for width in (360, 430, 703, 704, 767, 768, 800, 1023, 1024, 1440, 1920):
        page.set_viewport_size({"width": width, "height": 800})
        (shown,) = [one for one in page.locator(".staircase").all() if one.is_visible()]
        assert 11 <= shown.evaluate(size) <= 14, width


def test_a_phone_shows_three_records_before_the_boards_and_all_on_request(page: "sync_api.Page", url: str) -> None:
    page.goto(url)
    records = page.locator(".feed li:visible")
    assert records.count() == 8
    page.get_by_label("Show the latest 20").check()
    assert records.count() == 20
    page.get_by_label("Show the latest 20").uncheck()
    page.set_viewport_size({"width": 360, "height": 800})
    first, boards = records.first.bounding_box(), page.locator("#boards").bounding_box()
    assert first
    assert boards
    assert first["y"] < boards["y"] and records.count() == 3
    page.get_by_label("Show the latest 20").check()
    assert records.count() == 20


def test_a_phone_shows_losses_against_first_place_without_scrolling_sideways(
    page: "sync_api.Page", site: Path, url: str
) -> None:
    page.set_viewport_size({"width": 360, "height": 800})
    page.goto(url + one_of_each(site)["submission of a GPU"])
    answers = page.locator(".against tbody td:nth-child(3) .this")
    assert answers.count() > 1
    for answer in answers.all():
        place = answer.bounding_box()
        assert place
        assert place["x"] >= 20
        assert place["x"] + place["width"] <= 340


def test_a_machines_whole_timeline_fits_a_small_screen(page: "sync_api.Page", url: str) -> None:
    page.goto(url + "machines/index.html")
    texts = page.locator(".timeline").first.locator("text")
    for width in (360, 768):
        page.set_viewport_size({"width": width, "height": 800})
        sides = texts.evaluate_all(
            "all => all.map(text => text.getBoundingClientRect()).map(({left, right}) => [left, right])"
        )
        assert len(sides) > 3 and min(left for left, _ in sides) >= 0
        assert width - 40 < max(right for _, right in sides) <= width
        assert texts.first.evaluate("text => getComputedStyle(text).fontSize") == "12px"


@pytest.mark.parametrize("kind", ["hostile submission", "guide for participants"])
def test_no_button_covers_the_code_that_it_copies(page: "sync_api.Page", site: Path, url: str, kind: str) -> None:
    page.goto(url + (one_of_each(site) | {"guide for participants": "guides/participants/index.html"})[kind])
    show_all(page, kind)
    buttons = page.locator("button.copy").all()
    assert buttons
    for width in (360, 1440):
        page.set_viewport_size({"width": width, "height": 800})
        for button in buttons:
            code = button.locator("~ .code")
            code.evaluate("code => code.scrollTo({ left: code.scrollWidth, behavior: 'instant' })")
            first, over = code.locator(".l").first.bounding_box(), button.bounding_box()
            assert first
            assert over
            assert first["y"] >= over["y"] + over["height"] or first["x"] + first["width"] <= over["x"]


def test_the_keyboard_copies_a_guides_code_and_nothing_moves(browser: "sync_api.Browser", url: str) -> None:
    with browser.new_context(permissions=["clipboard-read", "clipboard-write"]) as context:
        page = context.new_page()
        page.goto(url + "guides/participants/index.html")
        for width in (360, 1440):
            page.set_viewport_size({"width": width, "height": 800})
            block = page.locator(".copyable").first
            place = "code => [code.offsetLeft, code.offsetTop, code.offsetWidth, code.offsetHeight]"
            before = block.locator("pre").evaluate(place)
            block.get_by_role("button", name="Copy").press("Enter")
            block.get_by_role("button", name="Copied").wait_for()
            assert block.locator("pre").evaluate(place) == before
            copied = page.evaluate("navigator.clipboard.readText()")
            assert (
                copied
                == "uv tool install --torch-backend auto \\\n    'pullrank[compete] @ git+https://github.com/OWNER/NAME'\n"
            )
            block.get_by_role("button", name="Copy", exact=True).wait_for()


def test_forced_colours_keep_every_mark_on_a_board_visible(browser: "sync_api.Browser", url: str) -> None:
    with browser.new_context(forced_colors="active", color_scheme="dark") as context:
        page = context.new_page()

        def look(selector: str, name: str, pseudo: str = "") -> str:
            return page.locator(selector).first.evaluate(
                "(one, [name, pseudo]) => getComputedStyle(one, pseudo)[name]", [name, pseudo]
            )

        page.goto(url)
        canvas = look("body", "backgroundColor")
        assert look(".act a", "backgroundColor") != canvas
        page.goto(url + "hostile/CPU/index.html")
        page.get_by_label("Highlight my row").fill("grace")
        assert look("#ranks tr.mine", "outlineStyle") == look("#heat tr.mine", "outlineStyle") == "solid"
        assert look("#ranks tr.tied .rank", "borderLeftWidth", "::before") == "3px"
        assert look(".tabs [aria-current]", "borderBottomColor") != canvas
        assert look(".tabs a:not([aria-current])", "borderBottomColor") == canvas
        assert len({look(kind, "backgroundColor") for kind in (".key.best", ".key.heat2", "#heat td")}) == 3


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_marks_and_fields_have_enough_contrast(page: "sync_api.Page", site: Path, url: str, theme: str) -> None:
    """axe looks at text alone, and not at what CSS writes."""
    page.emulate_media(color_scheme=theme)

    def contrast(selector: str, name: str, pseudo: str = "") -> float:
        """The contrast of a colour with the page, as Chromium blends them."""
        return page.evaluate(CONTRAST, [selector, name, pseudo])

    page.goto(url + "hostile/CPU/index.html")
    assert contrast("input.me", "borderTopColor") >= 3
    assert contrast("select.by", "borderTopColor") >= 3
    for kind in ("tied", "unproven"):
        assert contrast(f"#ranks tr.{kind} .rank", "borderLeftColor", "::before") >= 3, kind
    page.goto(url + one_of_each(site)["submission of a GPU"])
    assert min(contrast(f"figure g{kind} .dots", "stroke") for kind in (".main", ":not(.main)")) >= 3
    assert contrast("#source .l", "color", "::before") >= 4.5


CONTRAST = """([selector, name, pseudo]) => {
    const one = document.querySelector(selector), style = getComputedStyle(one, pseudo);
    const canvas = new OffscreenCanvas(1, 1).getContext("2d");
    const light = () => {
        const [red, green, blue] = [...canvas.getImageData(0, 0, 1, 1).data].map((part) => {
            return part > 10 ? ((part / 255 + 0.055) / 1.055) ** 2.4 : part / 255 / 12.92;
        });
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05;
    };
    const paint = (colour, alpha) => {
        canvas.globalAlpha = alpha;
        canvas.fillStyle = colour;
        canvas.fillRect(0, 0, 1, 1);
        return light();
    };
    const below = getComputedStyle(one.closest(".code") ?? document.body).backgroundColor;
    const pair = [paint(below, 1), paint(style[name], style.opacity)];
    return Math.max(...pair) / Math.min(...pair);
}"""
"""WCAG's contrast ratio of a colour with the background."""


def test_a_page_without_its_styles_keeps_lines_of_code_and_logins_apart(
    page: "sync_api.Page", site: Path, url: str
) -> None:
    """So do text browsers, and a copy of a table."""
    page.route("**/style.css", lambda route: route.abort())
    page.goto(url + "matmul/H100/index.html")
    login = page.locator(f"{ROWS} a.login").first.inner_text()
    assert page.locator(f"{ROWS} .who").first.inner_text() == login
    page.goto(url + one_of_each(site)["submission of a GPU"])
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    for code in page.locator(".code:has(.l + .l)").all():
        lines = code.locator(".l").all_text_contents()
        assert len(lines) > 1 and code.inner_text().splitlines() == lines


def test_a_phone_shows_whole_logins_and_hides_nothing_with_focus(page: "sync_api.Page", url: str) -> None:
    page.set_viewport_size({"width": 320, "height": 640})
    page.emulate_media(reduced_motion="reduce")
    page.goto(url)
    assert page.locator(".board .name").evaluate_all(
        "names => names.every(name => name.scrollWidth <= name.clientWidth)"
    )
    page.goto(url + "hostile/CPU/index.html")
    for link in page.locator(".contents a").all():
        link.focus()
        place = link.bounding_box()
        assert place
        assert place["x"] >= 0 and place["x"] + place["width"] <= 320
    page.goto(url + "guides/judging-programs/index.html")
    here = page.locator(".contents [aria-current]").bounding_box()
    assert here
    assert here["x"] >= 0 and here["x"] + here["width"] <= 320
    page.go_back()
    # The frame of a link with focus is 4 pixels wide, and its pane would cut off more.
    room = "link => link.getBoundingClientRect().left - link.closest('ul, .scroll').getBoundingClientRect().left"
    for pane in (".contents", ".records"):
        link = page.locator(f"{pane} a").first
        link.focus()
        assert link.evaluate(room) >= 4, pane
    # The column of logins stays at the left of the times: no box is below it.
    page.locator("select.by").focus()
    corner = (
        "box => (({ left, top }) => document.elementFromPoint(left + 2, top + 2) === box)(box.getBoundingClientRect())"
    )
    seen = 0
    for key in ["Tab"] * 4 + ["Shift+Tab"] * 2:
        page.keyboard.press(key)
        for box in page.locator("input.case:focus").all():
            assert box.evaluate(corner)
            seen += 1
    assert seen == 5


def test_a_guides_table_breaks_no_word(page: "sync_api.Page", url: str) -> None:
    in_lines = "names => [...new Set(names.map(name => name.getClientRects().length))]"
    page.goto(url + "guides/judging/index.html")
    verdicts = page.locator("#verdicts ~ .scroll tbody th")
    for width in (360, 1440):
        page.set_viewport_size({"width": width, "height": 800})
        assert verdicts.count() == len(Verdict)
        assert verdicts.evaluate_all(f"cells => [...new Set(cells.map({LINES}))]") == [1]
    page.goto(url + "guides/programs-json/index.html")
    names = page.locator("tbody td:first-child code")
    assert names.count() > 100
    for width in (360, 1440):
        page.set_viewport_size({"width": width, "height": 800})
        assert names.evaluate_all(in_lines) == [1]


def test_a_printed_page_is_white_and_cuts_off_no_code(page: "sync_api.Page", site: Path, url: str) -> None:
    page.goto(url + one_of_each(site)["hostile submission"])
    page.get_by_role("button", name="Use the dark theme").click()
    page.set_viewport_size({"width": 720, "height": 1000})
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(253, 253, 252)"
    assert page.locator(".code").evaluate_all("all => all.every(code => code.scrollWidth <= code.clientWidth)")
    assert page.locator(".code").count()
    for path in ("index.html", "matmul/H100/index.html"):
        page.goto(url + path)
        assert not page.locator(":is(.act, .case, .hint .js-only):visible").count()
    # Chromium repeats a foot on each page, and a head only without what sticks and without buttons' boxes.
    style = "([one, name]) => [...document.querySelectorAll(one)].map(one => getComputedStyle(one)[name])"
    for one, name, wanted in (
        ("tfoot", "display", "table-row-group"), ("thead th", "position", "static"),
        ("th button", "display", "contents"), (".heat .best", "printColorAdjust", "exact"),
    ):  # fmt: skip
        assert {*page.evaluate(style, [one, name])} == {wanted}, one


def heat_rows(page: "sync_api.Page") -> list[tuple[str, list[float]]]:
    return [
        (row["login"], row["times"])
        for row in page.evaluate("""() => [...document.querySelectorAll("#heat tbody tr")].map(row => ({
            login: row.dataset.login, times: [...row.querySelectorAll("td[data-v]")].map(cell => Number(cell.dataset.v))
        }))""")
    ]


def test_what_if_reranks_by_chosen_cases_and_mean_and_updates_the_address(page: "sync_api.Page", url: str) -> None:
    page.goto(url + "matmul/H100/index.html")
    official = heat_rows(page)
    page.locator("input.case").nth(1).uncheck()
    expected = sorted(official, key=lambda row: math.log(row[1][0]) + math.log(row[1][2]))
    assert [login for login, _ in heat_rows(page)] == [login for login, _ in expected]
    page.locator("select.by").select_option("mean")
    by_mean = [login for login, _ in sorted(official, key=lambda row: row[1][0] + row[1][2])]
    assert [login for login, _ in heat_rows(page)] == by_mean
    assert page.url.endswith("?cases=1,3&by=mean")
    page.reload()
    assert [login for login, _ in heat_rows(page)] == by_mean
    assert page.locator("#heat .place").all_inner_texts() == [str(rank + 1) for rank in range(len(official))]
    page.emulate_media(media="print")
    told = page.locator(".what-if")
    assert (
        told.inner_text()
        == f"{page.locator('#heat tbody a').first.inner_text()} would lead by the mean of 2 of 3 benchmarks."
    )
    assert "not the official ranking" in told.evaluate("told => getComputedStyle(told, '::before').content")
    assert told.is_visible() and page.locator("#cases .tools > :visible").count() == 1
    page.emulate_media(media="screen")
    page.get_by_role("button", name="Reset").press("Enter")
    assert heat_rows(page) == official and "?" not in page.url
    assert page.locator("select.by").evaluate("select => select === document.activeElement")
    page.emulate_media(media="print")
    assert told.is_hidden()


def test_what_if_without_any_case_shows_the_official_ranking(page: "sync_api.Page", url: str) -> None:
    page.goto(url + "matmul/H100/index.html")
    official = heat_rows(page)
    page.locator("select.by").select_option("mean")
    for box in page.locator("input.case").all():
        box.uncheck()
    assert page.locator(".what-if").inner_text().startswith("Choose at least one benchmark")
    assert heat_rows(page) == official and "?" not in page.url
    page.get_by_role("button", name="Reset").click()
    assert page.locator("input.case:checked").count() == 3
    assert page.locator(".what-if").inner_text() == "This is the official ranking."


def test_what_if_keeps_the_capitals_of_the_leaders_login(page: "sync_api.Page", long_board: str) -> None:
    page.goto(f"{long_board}?cases=1")
    leader = page.locator("#heat tbody tr th a").first.inner_text()
    assert leader != leader.lower() and page.locator(".what-if").inner_text().startswith(f"{leader} would lead")


def test_what_if_puts_provisional_rows_last(page: "sync_api.Page", url: str) -> None:
    page.goto(url + "matmul/H100/index.html")
    fastest = heat_rows(page)[0][0]
    page.locator("#heat tbody tr").first.evaluate("row => { row.dataset.provisional = '' }")
    page.locator("select.by").select_option("mean")
    assert heat_rows(page)[-1][0] == fastest and fastest not in page.locator(".what-if").inner_text()


def test_what_if_never_shows_a_tiny_time_as_zero(page: "sync_api.Page", long_board: str) -> None:
    page.goto(long_board)
    page.locator("#heat tbody td[data-v]").first.evaluate("cell => { cell.dataset.v = 1e-8 }")
    page.locator("select.by").select_option("mean")
    for index in (1, 2):
        page.locator("input.case").nth(index).uncheck()
    assert page.locator("#heat .total:not(th)").first.inner_text() == "1e-11"  # ms


def test_a_nonsense_query_leaves_the_board_unchanged(page: "sync_api.Page", url: str) -> None:
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(url + "matmul/H100/index.html")
    official = page.locator(f"{ROWS} a.login").all_inner_texts(), heat_rows(page)
    for query in ("cases=9,x", "cases=%3Cscript%3E", "by=constructor", "sort=__proto__", "sort=-"):
        page.goto(f"{url}matmul/H100/index.html?{query}")
        assert (page.locator(f"{ROWS} a.login").all_inner_texts(), heat_rows(page)) == official, query
        assert not errors, query


def test_a_known_login_marks_its_row_on_every_board(page: "sync_api.Page", url: str) -> None:
    page.goto(url + "hostile/CPU/index.html")
    page.get_by_label("Highlight my row").fill("@Grace")
    assert page.locator(f"{ROWS}.mine a.login").inner_text() == "grace"
    assert page.locator(".my-place").inner_text().startswith("3 of 8, +")
    page.goto(url + "matmul/H100/index.html")
    page.goto(url + "hostile/CPU/index.html")
    assert page.locator(f"{ROWS}.mine").count() == 1
    page.get_by_role("link", name="see where you lose time").click()
    assert page.locator("h1").inner_text() == "grace"
    assert "slower than edsger’s" in page.locator("#main").inner_text()


def test_a_marked_row_keeps_the_colours_of_its_cases(page: "sync_api.Page", url: str) -> None:
    colours = "row => [...row.cells].map(cell => getComputedStyle(cell).backgroundColor)"
    page.goto(url + "matmul/H100/index.html")
    row = page.locator("#heat tbody tr").filter(has=page.locator(".heat3.worst")).first
    login = row.get_attribute("data-login")
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        page.get_by_label("Highlight my row").fill("")
        head, *before = row.evaluate(colours)
        page.get_by_label("Highlight my row").fill(login)
        after_head, *after = row.evaluate(colours)
        assert len(set(before)) > 1 and after[1:] == before[1:], theme
        assert after_head != head
        assert row.evaluate("row => getComputedStyle(row).outlineStyle") == "solid"


@pytest.fixture(scope="module")
def long_board(site: Path, url: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a board of sixty rows; logins have capitals, or begin with a digit."""
    board = load_task(task_folder(tmp_path_factory.mktemp("long"), yml=WORK)).board("CPU")
    entries = list(entered(board, 60))
    logins = [*DIGITS, *(one.submission.login.title() for one in entries[len(DIGITS) :])]
    table = standings(board, [renamed(one, login) for one, login in zip(entries, logins, strict=True)])
    path, html = next(board_pages(SHARED, table, summary_of(SHARED, table), [], [], []))
    file = site.parent / "long" / path
    file.parent.mkdir(parents=True)
    file.write_text(html, "utf-8")
    shutil.copytree(site / "assets", site.parent / "long" / "assets")
    return f"{url.removesuffix('cup/')}long/{path}"


def renamed(one: Judgement, login: str) -> Judgement:
    return one.model_copy(update={"submission": one.submission.model_copy(update={"login": login})})


def ranks_shown(page: "sync_api.Page", table: str) -> list[int]:
    cells = page.locator(f"{table} tbody tr:visible :is(.rank, .place)")
    return [int(text.split()[0]) for text in cells.all_inner_texts()]


@pytest.mark.parametrize(("table", "section"), [("#ranks", "#standings"), ("#heat", "#cases")])
def test_a_long_board_shows_its_first_rows_and_your_own_until_expanded(
    page: "sync_api.Page", long_board: str, table: str, section: str
) -> None:
    page.goto(long_board)
    assert ranks_shown(page, table) == [*range(1, 16)]
    page.get_by_label("Highlight my row").fill(page.locator("#ranks tbody tr").nth(40).get_attribute("data-login"))
    assert ranks_shown(page, table) == [*range(1, 16), 40, 41, 42]
    # The pane does not scroll until all rows are shown.
    pane = page.locator(f"{section} .scroll")
    assert pane.evaluate("pane => pane.scrollHeight <= pane.clientHeight")
    page.get_by_label("Highlight my row").fill("")
    page.get_by_role("button", name="#").dblclick()
    page.locator("input.case").first.uncheck()
    assert ranks_shown(page, table) == ([*range(60, 45, -1)] if table == "#ranks" else [*range(1, 16)])
    page.get_by_role("button", name="#").click()
    page.locator(section).get_by_label("Show all 60 rows").check()
    assert ranks_shown(page, table) == [*range(1, 61)]
    assert pane.evaluate("pane => pane.clientHeight < innerHeight && pane.scrollHeight > pane.clientHeight")


def test_a_long_board_without_javascript_shows_all_rows_in_print_and_on_request(
    browser: "sync_api.Browser", long_board: str
) -> None:
    with browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(long_board)
        page.locator("#cases").get_by_label("Show all 60 rows").check()
        assert [len(ranks_shown(page, table)) for table in ("#ranks", "#heat")] == [15, 60]
        page.emulate_media(media="print")
        assert [len(ranks_shown(page, table)) for table in ("#ranks", "#heat")] == [60, 60]


@pytest.mark.parametrize("with_scripts", [True, False])
def test_a_page_search_finds_a_folded_row_of_a_long_board(
    browser: "sync_api.Browser", long_board: str, *, with_scripts: bool
) -> None:
    """A link to a text finds it like Ctrl+F, which no script can press."""
    with browser.new_context(java_script_enabled=with_scripts) as context:
        page = context.new_page()
        page.goto(long_board)
        row = page.locator(ROWS).last
        assert row.is_hidden()
        login = row.locator("a.login").text_content()
        page.goto("about:blank")
        page.goto(f"{long_board}#:~:text={login}".replace("-", "%2D"))
        sync_api.expect(row.locator("a.login")).to_be_in_viewport()
        assert len(ranks_shown(page, "#ranks")) == (60 if with_scripts else 16)
        assert page.locator("#standings .all-rows input").is_checked() is with_scripts


def test_a_browser_that_cannot_search_folded_rows_folds_none(page: "sync_api.Page", long_board: str) -> None:
    page.add_init_script("delete HTMLElement.prototype.onbeforematch")
    page.goto(long_board)
    assert [len(ranks_shown(page, table)) for table in ("#ranks", "#heat")] == [60, 60]


@pytest.mark.parametrize("script", ["site.js", "compare.js"])
def test_a_page_without_its_script_shows_no_useless_control(
    page: "sync_api.Page", site: Path, url: str, script: str
) -> None:
    page.route(f"**/{script}", lambda route: route.abort())
    page.goto(url + one_of_each(site)["submission of a GPU"])
    assert page.locator(".js-only").count() and not page.locator(".js-only:visible").count()


@pytest.mark.parametrize("width", [360, 1440])
@pytest.mark.parametrize("section", ["#standings", "#cases"])
def test_column_headers_stay_in_sight_of_every_row(
    page: "sync_api.Page", long_board: str, section: str, width: int
) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(long_board)
    page.locator(section).get_by_label("Show all 60 rows").check()
    row = page.locator(f"{section} tbody tr").nth(41)
    page.locator(f"{section} .scroll").evaluate("pane => pane.scrollIntoView({ behavior: 'instant' })")
    row.evaluate("row => row.closest('.scroll').scrollTo({ top: row.offsetTop - 300, behavior: 'instant' })")
    head, below = page.locator(f"{section} thead th").nth(2).bounding_box(), row.bounding_box()
    assert head
    assert below
    assert 0 <= head["y"] < head["y"] + head["height"] <= below["y"] < 800
    # The keyboard reaches no link below the header.
    row.locator("a").first.focus()
    for _ in range(40):
        page.keyboard.press("Shift+Tab")
    reached = page.evaluate(
        "document.activeElement.closest('tbody') && document.activeElement.getBoundingClientRect().top"
    )
    assert reached
    assert reached >= head["y"] + head["height"]


def test_a_submission_page_compares_with_any_other_and_the_address_keeps_it(
    page: "sync_api.Page", site: Path, url: str
) -> None:
    board = json.loads((site / "matmul/H100/board.json").read_text())["rows"]
    ours, theirs = board[4], board[3]
    page.goto(f"{url}{ours['page']}")
    hold_against(page, theirs["login"].upper())
    table = page.locator("table.beside")
    table.wait_for()
    ratios = [
        a["time_us"]["value"] / b["time_us"]["value"] for a, b in zip(ours["cases"], theirs["cases"], strict=True)
    ]
    told = [lost(ratio).replace(" ", "\u00a0", 1) for ratio in ratios]
    assert table.locator("td:last-child").all_inner_texts() == told
    cases = "all => all.map(one => one.outerHTML)"
    assert table.locator("tbody th").evaluate_all(cases) == page.locator(".against tbody th").evaluate_all(cases)
    assert table.locator("th").first.inner_text() == page.locator(".against th").first.inner_text()
    assert page.url.endswith(f"?with={theirs['login']}%2F{theirs['digest'][:12]}")
    assert page.get_by_role("status").all_text_contents() == ["See below the table.", ""]
    page.reload()
    table.wait_for()
    assert table.locator("td:last-child").all_inner_texts() == told
    times = [format_us(case["time_us"]["value"]).replace(" ", "\u00a0") for case in ours["cases"]]
    assert table.locator("td:nth-of-type(1)").all_inner_texts() == times
    diff = page.locator(".comparison .code .l").all_text_contents()
    assert f"+# {theirs['login']}: a made-up submission that only looks like a kernel." in diff
    assert f"-# {ours['login']}: a made-up submission that only looks like a kernel." in diff


def hold_against(page: "sync_api.Page", login: str) -> None:
    page.get_by_label("Compare with").fill(login)
    page.keyboard.press("Enter")


def test_a_late_answer_does_not_replace_a_newer_comparison(page: "sync_api.Page", site: Path, url: str) -> None:
    rows = json.loads((site / "matmul/H100/board.json").read_text())["rows"]
    slow, quick = rows[1]["login"], rows[3]["login"]
    held: list[sync_api.Route] = []
    page.route(f"**/{slow}/*/index.html", lambda route: held.append(route) or None)
    page.goto(f"{url}{rows[4]['page']}")
    hold_against(page, slow)
    while not held:
        page.wait_for_timeout(10)
    hold_against(page, quick)
    page.locator("table.beside").wait_for()
    with page.expect_response(f"**/{slow}/*/index.html"):
        held[0].continue_()
    page.wait_for_timeout(50)
    assert page.locator(".comparison h3").inner_text() == f"Compared with {quick}’s"
    assert page.get_by_label("Compare with").input_value() == quick and f"?with={quick}%2F" in page.url


def test_long_files_get_a_diff_if_they_differ_little_and_links_otherwise(
    page: "sync_api.Page", site: Path, url: str
) -> None:
    rows = json.loads((site / "matmul/H100/board.json").read_text())["rows"]
    ours, near, far = ([f"line {step * number}" for number in range(4000)] for step in (1, 1, 2))
    near[2000] = "another"
    page.goto(f"{url}{rows[4]['page']}")
    page.locator("#source").evaluate(f"source => source.innerHTML = {source_of(ours)!r}")
    for row, code in ((rows[1], near), (rows[3], far)):
        times = '<tr><td data-us="1">1.000 µs</td></tr>' * len(row["cases"])
        answer_with(
            page, row["page"], f'<table class="against">{times}</table><div id="source">{source_of(code)}</div>'
        )
        hold_against(page, row["login"])
        page.get_by_role("heading", name=f"Compared with {row['login']}’s").wait_for()
        if code is near:
            assert page.locator(".comparison .code .l").all_text_contents() == [
                " line 1997", " line 1998", " line 1999", "-line 2000", "+another", " line 2001", " line 2002", " line 2003",
            ]  # fmt: skip
    links = page.locator(".comparison p a").evaluate_all("links => links.map(link => link.getAttribute('href'))")
    assert links == ["#code", f"../../{rows[3]['login']}/{rows[3]['digest'][:12]}/index.html#code"]


def answer_with(page: "sync_api.Page", path: str, body: str) -> None:
    page.route(f"**/{path}", lambda route: route.fulfill(body=body))


def source_of(lines: list[str]) -> str:
    return "".join(f'<span class="l">{line}</span>' for line in lines)


def test_a_comparison_with_first_place_links_to_the_changes_already_on_the_page(
    page: "sync_api.Page", site: Path, url: str
) -> None:
    first, *_, ours = json.loads((site / "matmul/H100/board.json").read_text())["rows"][:5]
    page.goto(f"{url}{ours['page']}")
    hold_against(page, first["login"])
    page.get_by_role("link", name="what changed").click()
    assert page.locator("#changes details[open] a[href*='../']").first.is_visible()
    assert not page.locator("table.beside").count() and f"?with={first['login']}" in page.url


def test_a_phone_wraps_a_comparisons_cell_to_two_lines_at_most(page: "sync_api.Page", site: Path, url: str) -> None:
    theirs, ours = json.loads((site / "matmul/H100/board.json").read_text())["rows"][1:5:3]
    quick = re.sub(r'data-us="(.+?)"', r'data-us="\g<1>e-1"', (site / theirs["page"]).read_text())
    answer_with(page, theirs["page"], quick)
    page.set_viewport_size({"width": 360, "height": 640})
    page.goto(f"{url}{ours['page']}?with={theirs['login']}")
    told = page.locator("table.beside td:last-child")
    told.first.wait_for()
    assert {one.inner_text().replace("\xa0", " ")[-9:] for one in told.all()} == {"× as long"}
    assert {one.evaluate(LINES) for one in told.all()} <= {1, 2}


def test_a_comparison_that_fails_says_what_to_do(page: "sync_api.Page", site: Path, url: str) -> None:
    path = one_of_each(site)["submission of a GPU"]
    page.route("**/rows.json", lambda route: route.abort())
    for base, words in ((url, "could not be fetched; try again."), (f"{site.as_uri()}/", "pullrank site serve")):
        page.goto(f"{base}{path}?with=ada")
        page.get_by_text(words).wait_for()


def test_a_comparison_with_an_unknown_login_says_so(page: "sync_api.Page", site: Path, url: str) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    for query in ("nobody", "../../..", "%3Cscript%3Ealert(1)%3C/script%3E", "__proto__", "edsger/"):
        page.goto(f"{url}{one_of_each(site)['submission of a GPU']}?with={query}")
        page.get_by_text("No other entry on this board has that login.").wait_for()
        assert page.locator(".comparison").is_hidden(), query
    assert {one.partition("?")[0].rpartition("/")[2] for one in asked} <= {
        "index.html", "rows.json", "style.css", "theme.js", "site.js", "compare.js", "icon.svg",
    }  # fmt: skip


def test_the_template_is_copied_as_it_is_in_the_tasks_folder(browser: "sync_api.Browser", url: str) -> None:
    with browser.new_context(permissions=["clipboard-read", "clipboard-write"]) as context:
        page = context.new_page()
        page.goto(url + "matmul/H100/index.html")
        page.get_by_text("a starting point, in Python").click()
        page.get_by_role("button", name="Copy").first.click()
        page.get_by_role("button", name="Copied").wait_for()
        assert page.locator(".said").text_content() == "Copied"
        copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == (Path(__file__).parent.parent / "tasks/matmul/template.py").read_text()


def test_times_appear_in_the_readers_zone_with_utc_in_the_title(browser: "sync_api.Browser", url: str) -> None:
    with browser.new_context(timezone_id="Pacific/Auckland", locale="en-US") as context:
        page = context.new_page()
        page.goto(url + "hostile/CPU/index.html")
        told = page.locator("footer time")
        assert told.inner_text().startswith("12 Dec 2026, 22:00")
        assert told.get_attribute("title") == "12 Dec 2026, 09:00 UTC"


def test_a_deadline_counts_down_and_closes(browser: "sync_api.Browser", url: str) -> None:
    with browser.new_context() as context:
        page = context.new_page()
        for now, words in (
            ("2027-02-19T00:00:00Z", "Closes in 10\u00a0days,"),
            ("2027-02-28T23:59:10Z", "Closes in 1\u00a0minute,"),
            ("2027-03-01T00:00:00Z", "Closed on"),
        ):
            page.clock.set_fixed_time(now)
            page.goto(url + "untouched/CPU/index.html")
            assert page.locator(".until").inner_text().startswith(words)


def test_the_first_paint_on_slow_4g_waits_for_page_and_style(browser: "sync_api.Browser", site: Path) -> None:
    found = first_paints_ms(site, browser, loads=1)
    assert list(found) == ["landing", "board", "submission"]
    assert min(found.values()) > 2 * SLOW_4G["latency"]
