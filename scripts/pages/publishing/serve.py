"""A local static server for `pullrank site serve`.  Loopback only; GitHub Pages serves the public site."""

from __future__ import annotations

from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from harness.records.errors import PullRankError

_HOST = "127.0.0.1"


class _Handler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the base's names)
        """Log nothing: a line per request would bury the command's own output."""

    def list_directory(self, path: Any) -> None:  # noqa: ARG002 (the base's names)
        """Answer 404 for a folder without an index.html, as GitHub Pages does."""
        self.send_error(404)

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "no-store")  # So that a reload shows a rebuilt site.
        super().end_headers()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer 404 with the site's own 404.html, as GitHub Pages does."""
        page = Path(self.directory) / "404.html"
        if code == 404 and page.is_file():
            self._send_not_found(page.read_bytes())
        else:
            super().send_error(code, message, explain)

    def _send_not_found(self, body: bytes) -> None:
        self.send_response(404)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore browsers that close the connection early."""


def site_server(folder: Path, port: int = 0) -> ThreadingHTTPServer:
    """A server of `folder` on 127.0.0.1, not yet serving; port 0 picks a free one.

    Raises:
        PullRankError: `folder` has no site, or the port is taken.
    """
    if not (folder / "index.html").is_file():
        raise PullRankError(f"{folder} has no site; build one first: pullrank site build --out {folder}")
    return _bound(port, folder)


def require_port(port: int) -> None:
    """Raises PullRankError: no server can have this port now."""
    _bound(port).server_close()


def _bound(port: int, folder: Path = Path()) -> ThreadingHTTPServer:
    try:
        return _Server((_HOST, port), partial(_Handler, directory=str(folder)))
    except OSError as error:
        raise PullRankError(f"port {port} of {_HOST}: {error.strerror}; --port 0 picks a free one") from None


def url_of(server: ThreadingHTTPServer) -> str:
    return f"http://{_HOST}:{server.server_port}/"
