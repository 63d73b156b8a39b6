"""How soon a site's pages show on slow 4G: in Chromium, whose own developer tools slow the network down.

    first_paints_ms     three pages, each loaded a few times by a browser that has seen nothing yet

Pages travel gzipped, as from GitHub Pages, but from loopback and by HTTP/1.1: looking the host up and greeting it, two
or three round trips of 150 ms, come on top.
"""

from __future__ import annotations

import gzip
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, BinaryIO

from harness.records.errors import PullRankError

if TYPE_CHECKING:
    from playwright.sync_api import Browser

SLOW_4G = {"offline": False, "latency": 150, "downloadThroughput": 1.6e6 / 8, "uploadThroughput": 750e3 / 8}
"""Milliseconds there and back, bytes a second: the profile that Lighthouse has for phones."""

_WIDTH, _HEIGHT = 412, 823
_PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"


@contextmanager
def chromium() -> Iterator[Browser]:
    """This machine's.

    Raises:
        PullRankError: Chromium or Playwright is missing.
    """
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        raise PullRankError("playwright is not installed: pip install playwright") from None
    with sync_playwright() as playwright:
        yield playwright.chromium.launch(executable_path=require_chromium(), args=["--no-sandbox", "--disable-gpu"])


def first_paints_ms(site: Path, browser: Browser, loads: int = 5) -> dict[str, float]:
    """The first paint of anything to be read, in milliseconds after the click; medians of `loads`."""
    with served(site) as url:
        return {
            kind: median(_first_paint_ms(browser, url + path) for _ in range(loads))
            for kind, path in telling_pages(site).items()
        }


def _first_paint_ms(browser: Browser, url: str) -> float:
    # Playwright waits by `eval`, which the site's policy forbids; the policy itself takes no time.
    with browser.new_context(viewport={"width": _WIDTH, "height": _HEIGHT}, bypass_csp=True) as context:
        page = context.new_page()
        tools = context.new_cdp_session(page)
        tools.send("Network.enable")
        tools.send("Network.emulateNetworkConditions", SLOW_4G)
        page.goto(url)
        page.wait_for_function(_PAINT)
        return float(page.evaluate(_PAINT))


def require_chromium() -> str:
    """Where Chromium is.

    Raises:
        PullRankError: nowhere.
    """
    if not (found := shutil.which("chromium")):
        raise PullRankError("chromium is not installed: apt-get install chromium")
    return found


def telling_pages(site: Path) -> dict[str, str]:
    """The landing page, the largest board, and the largest page of a submission there."""
    boards = [path for path in site.glob("*/*/index.html") if path.with_name("board.json").exists()]
    board = max(boards, key=_size)
    found = {"landing": site / "index.html", "board": board}
    if entries := list(board.parent.glob("*/*/submission.json")):
        found["submission"] = max((path.with_name("index.html") for path in entries), key=_size)
    return {kind: path.relative_to(site).as_posix() for kind, path in found.items()}


def _size(path: Path) -> int:
    return path.stat().st_size


class _Gzipping(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the base's names)
        """Quiet."""

    def send_head(self) -> BytesIO | BinaryIO | None:
        path = Path(self.translate_path(self.path))
        if not path.is_file():
            return super().send_head()
        body = gzip.compress(path.read_bytes(), compresslevel=6)
        self.send_response(200)
        self.send_header("Content-Type", self.guess_type(str(path)))
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        return BytesIO(body)


@contextmanager
def served(site: Path) -> Iterator[str]:
    """The site on loopback, its files gzipped; gives its address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Gzipping, directory=str(site))) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()
