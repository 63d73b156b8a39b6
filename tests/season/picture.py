"""`make picture`: a board of a fictional season in both themes, for README.md."""

from __future__ import annotations

import tempfile
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image

from benchmarks.paint import chromium, served
from scripts.pages.parts.site import Site
from scripts.pages.publishing.publish import build_site
from tests.season.season import END, NOTICE, Size, make_season

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PICTURES = Path(__file__).parents[2] / ".github"
THEMES = ("light", "dark")
BOARD = "softmax/H100/index.html"
_WIDTH, _BELOW, _SCALE = 1200, 12, 1.5
"""The page's width and the space below the standings, in CSS pixels, and the picture's pixels for each of them."""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        made = make_season(Path(folder, "season"), Size(authors=120, judgements=1000))
        site = Path(folder, "_site")
        build_site(
            made.tasks, made.ledger, site, Site.of(made.settings, sources=made.source_of, notice=NOTICE, now=END)
        )
        with served(site) as url:
            for theme in THEMES:
                picture = Image.open(BytesIO(_screenshot(browser, url + BOARD, theme))).convert("RGB")
                picture.save(PICTURES / f"board-{theme}.webp", lossless=True, method=6)


def _screenshot(browser: Browser, address: str, theme: str) -> bytes:
    """The page from its top to the end of the standings, on the season's last day."""
    with browser.new_context(
        viewport={"width": _WIDTH, "height": 1600}, device_scale_factor=_SCALE, color_scheme=theme, timezone_id="UTC"
    ) as context:
        page = context.new_page()
        page.clock.set_fixed_time(END)
        page.goto(address)
        table = page.locator("#ranks").bounding_box()
        return page.screenshot(clip={"x": 0, "y": 0, "width": _WIDTH, "height": table["y"] + table["height"] + _BELOW})


if __name__ == "__main__":
    main()
