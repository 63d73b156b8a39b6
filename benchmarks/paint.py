"""First paints of a site's pages on slow 4G, in Chromium, whose developer tools throttle the network.

    first_paints_ms     three pages, each loaded several times with an empty cache

Pages are gzipped, as on GitHub Pages, but come from loopback over HTTP/1.1: on a real network, add the DNS lookup and
the handshakes, two or three round trips of 150 ms.
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
"""Round-trip time in milliseconds and bytes per second: Lighthouse's profile for phones."""

_WIDTH, _HEIGHT = 412, 823
_PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start this machine's Chromium.

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
    """First contentful paints in milliseconds after navigation; medians of `loads`."""
    with served(site) as url:
        return {
            kind: median(_first_paint_ms(browser, url + path) for _ in range(loads))
            for kind, path in telling_pages(site).items()
        }


def _first_paint_ms(browser: Browser, url: str) -> float:
    # Playwright waits with `eval`, which the site's policy forbids; bypassing the policy does not affect the time.
    with browser.new_context(viewport={"width": _WIDTH, "height": _HEIGHT}, bypass_csp=True) as context:
        page = context.new_page()
        tools = context.new_cdp_session(page)
        tools.send("Network.enable")
        tools.send("Network.emulateNetworkConditions", SLOW_4G)
        page.goto(url)
        page.wait_for_function(_PAINT)
        return float(page.evaluate(_PAINT))


def require_chromium() -> str:
    """The path of Chromium.

    Raises:
        PullRankError: Chromium is not installed.
    """
    if not (found := shutil.which("chromium")):
        raise PullRankError("chromium is not installed: apt-get install chromium")
    return found


def telling_pages(site: Path) -> dict[str, str]:
    """The landing page, the largest board page, and that board's largest submission page."""
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
        """Log nothing."""

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
    """Serve the site on loopback with gzipped files; yields its address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Gzipping, directory=str(site))) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()
