"""Download JSON from a published site, with limits on size and time.

find_facts          a file of a site; redirects to another host are followed
fetch_judgement     one judgement by URL; redirects to another host are refused
"""

from __future__ import annotations

import re
import time
import urllib.request
from http.client import HTTPException, HTTPResponse
from typing import TypeVar
from urllib.error import HTTPError
from urllib.parse import quote, urlsplit

from pydantic import ValidationError

from harness.records.errors import PullRankError
from harness.records.judgement import MAX_BYTES as MAX_JUDGEMENT_BYTES
from scripts.boards.board_facts import SiteModel
from scripts.common.text import plain, shorten

F = TypeVar("F", bound=SiteModel)

MAX_BYTES = 64 * 1024 * 1024
TIMEOUT_S = 20.0
"""Without receiving a byte."""
LONGEST_S = 120.0
"""For a whole file."""

_LOOPBACK = ("127.0.0.1", "::1", "localhost")


class SiteError(PullRankError):
    """The site cannot be read, or is not a PullRank site."""


class _NoFlight(urllib.request.HTTPRedirectHandler):
    """Follows redirects, but not from https to http or to another scheme.

    `stays`: nor to another host.
    """

    def __init__(self, *, stays: bool) -> None:
        self._stays = stays

    def redirect_request(
        self, req: urllib.request.Request, fp: object, code: int, msg: str, headers: object, newurl: str
    ) -> urllib.request.Request | None:
        before, after = urlsplit(req.full_url), urlsplit(newurl)
        if after.scheme not in ("https", before.scheme):
            raise SiteError(f"{req.full_url} redirects away from https; use the site's new address")
        if self._stays and after.netloc != before.netloc:
            there = shorten(plain(after.netloc), 100)
            raise SiteError(f"{req.full_url} redirects to another host, {there}; use that address if you trust it")
        return super().redirect_request(req, fp, code, msg, headers, newurl)  # type: ignore[arg-type]


def site_address(url: str) -> str:
    """The URL of the site's root with a trailing slash, from the URL of its root or of an index.html.

    Raises:
        SiteError: the URL is malformed.
    """
    try:
        parts = urlsplit(url if "://" in url else f"https://{url}")
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("https", "http") or not parts.hostname or parts.username:
        raise SiteError(f"--site {url}: must be the site's address, such as https://OWNER.github.io/NAME/")
    return f"{parts.scheme}://{parts.netloc}{parts.path.removesuffix('index.html').rstrip('/')}/"


def find_facts(kind: type[F], address: str, *path: str) -> F | None:
    """A JSON file of the site; None if it does not exist.

    Raises:
        SiteError: it cannot be read, or has other content.
    """
    url = address + "/".join(quote(part, safe="") for part in path)
    content = _fetch(url)
    if content is None:
        return None
    try:
        return kind.model_validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        said = shorten(plain(f"{where}: {first['msg']}" if where else first["msg"]), 200)
        raise SiteError(f"{url} is not a file of a PullRank site ({said}); is the address right?") from None


def is_address(place: str) -> bool:
    """Whether a place is a URL rather than a file."""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", place) is not None


def fetch_judgement(address: str) -> bytes:
    """The bytes of a judgement, from its URL or from the URL of its submission's page.

    Raises:
        SiteError: the URL is not https (or http on this machine), or cannot be read.
    """
    url = _judgement_url(address)
    content = _fetch(url, MAX_JUDGEMENT_BYTES, stays=True)
    if content is None:
        raise SiteError(
            f"{url}: not found. The site has the judgements of each board's first rows and latest records; pages of "
            "other submissions link to theirs in the ledger. Those of a private repository are only in a clone, on the "
            "branch `ledger`"
        )
    return content


def _judgement_url(address: str) -> str:
    try:
        parts = urlsplit(address)
        host, _ = parts.hostname, parts.port  # also raises ValueError
    except ValueError:
        host = None
    is_local = parts.scheme == "http" and host in _LOOPBACK if host else False
    if not host or parts.username or not (parts.scheme == "https" or is_local):
        raise SiteError(f"{shorten(plain(address), 200)}: must be an address that begins with https://")
    path = parts.path
    if not path.endswith(".json"):
        path = f"{path.removesuffix('index.html').rstrip('/')}/judgement.json"
    return f"{parts.scheme}://{parts.netloc}{quote(path, safe='/%')}"


def _fetch(url: str, max_bytes: int = MAX_BYTES, *, stays: bool = False) -> bytes | None:
    opener = urllib.request.build_opener(_NoFlight(stays=stays))
    request = urllib.request.Request(url, headers={"User-Agent": "pullrank"})  # noqa: S310  the scheme was checked
    try:
        with opener.open(request, timeout=TIMEOUT_S) as answer:
            return _read(url, answer, max_bytes)
    except HTTPError as error:
        if error.code == 404:
            return None
        raise SiteError(f"{url}: the site answers {error.code}; try again later") from None
    except (OSError, HTTPException, ValueError) as error:
        raise SiteError(f"{url} cannot be read ({shorten(plain(str(error)), 200)}); is the address right?") from None


def _read(url: str, answer: HTTPResponse, max_bytes: int) -> bytes:
    until, content = time.monotonic() + LONGEST_S, bytearray()
    while some := answer.read1(1 << 16):  # returns what is available, so that a slow server cannot evade the time limit
        content += some
        if len(content) > max_bytes:
            raise SiteError(f"{url} is larger than {max_bytes // 1024**2} MiB")
        if time.monotonic() > until:
            raise SiteError(f"{url} cannot be read: the download took over {LONGEST_S:.0f} s; try again later")
    # `read1` does not report a truncated answer.
    if len(content) < int(answer.headers.get("Content-Length") or 0):
        raise SiteError(f"{url} cannot be read: the download was cut off; try again")
    return bytes(content)
