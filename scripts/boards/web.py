"""A published site, read over the web: its JSON and nothing else, in a size that is bounded and a time that is, too.

find_facts          a file of a site, which may have moved to another host
fetch_judgement     one judgement at its own address, which leads nowhere else
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
from scripts.boards.facts import SiteModel
from scripts.common.text import plain, shorten

F = TypeVar("F", bound=SiteModel)

MAX_BYTES = 64 * 1024 * 1024
TIMEOUT_S = 20.0
"""Without a byte."""
LONGEST_S = 120.0
"""For the whole of a file."""

_LOOPBACK = ("127.0.0.1", "::1", "localhost")


class SiteError(PullRankError):
    """The site cannot be read, or is none of ours."""


class _NoFlight(urllib.request.HTTPRedirectHandler):
    """Follows a site that has moved, and nothing that leads from https to http, or out of the web.

    `stays`: nor to another host.
    """

    def __init__(self, *, stays: bool) -> None:
        self._stays = stays

    def redirect_request(
        self, req: urllib.request.Request, fp: object, code: int, msg: str, headers: object, newurl: str
    ) -> urllib.request.Request | None:
        before, after = urlsplit(req.full_url), urlsplit(newurl)
        if after.scheme not in ("https", before.scheme):
            raise SiteError(f"{req.full_url} leads away from https; say where the site has gone")
        if self._stays and after.netloc != before.netloc:
            there = shorten(plain(after.netloc), 100)
            raise SiteError(f"{req.full_url} leads to another host, {there}; name the address there, if you trust it")
        return super().redirect_request(req, fp, code, msg, headers, newurl)  # type: ignore[arg-type]


def site_address(url: str) -> str:
    """The site's root, with a slash at its end, from whatever page of it people copied the address.

    Raises:
        SiteError: it is no address of a site.
    """
    try:
        parts = urlsplit(url if "://" in url else f"https://{url}")
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("https", "http") or not parts.hostname or parts.username:
        raise SiteError(f"--site {url}: write the site's address, as in https://OWNER.github.io/NAME/")
    return f"{parts.scheme}://{parts.netloc}{parts.path.removesuffix('index.html').rstrip('/')}/"


def find_facts(kind: type[F], address: str, *path: str) -> F | None:
    """A file of the site's JSON; None if there is none.

    Raises:
        SiteError: it cannot be read, or holds something else.
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
        raise SiteError(f"{url} is not what a site of PullRank holds ({said}); is the address right?") from None


def is_address(place: str) -> bool:
    """Whether something is an address rather than a file."""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", place) is not None


def fetch_judgement(address: str) -> bytes:
    """The bytes of a judgement at its address, or at that of the page beside which it lies.

    Raises:
        SiteError: it is no address by https (or on this machine), or nothing can be read there.
    """
    url = _judgement_url(address)
    content = _fetch(url, MAX_JUDGEMENT_BYTES, stays=True)
    if content is None:
        raise SiteError(
            f"{url}: nothing is there. A judgement lies beside the page of each of a board's first rows and latest "
            "records; the pages of others give its address in the ledger. A private one can be read in a clone alone: "
            "on the branch `ledger`"
        )
    return content


def _judgement_url(address: str) -> str:
    try:
        parts = urlsplit(address)
        host, _ = parts.hostname, parts.port  # raises ValueError, too
    except ValueError:
        host = None
    is_local = parts.scheme == "http" and host in _LOOPBACK if host else False
    if not host or parts.username or not (parts.scheme == "https" or is_local):
        raise SiteError(f"{shorten(plain(address), 200)}: write an address that begins with https://")
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
    while some := answer.read1(1 << 16):  # what is there, so that a drop a second takes no day
        content += some
        if len(content) > max_bytes:
            raise SiteError(f"{url} is larger than {max_bytes // 1024**2} MiB")
        if time.monotonic() > until:
            raise SiteError(f"{url} cannot be read: it takes longer than {LONGEST_S:.0f} s; try again later")
    # `read1` does not say so itself.
    if len(content) < int(answer.headers.get("Content-Length") or 0):
        raise SiteError(f"{url} cannot be read: it was cut off on its way; try again")
    return bytes(content)
