"""Download JSON from a published site, with limits on size and time.

find_facts          a file of a site; redirects to another host are followed
fetch_judgement     one judgement by URL; redirects to another host are refused
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TypeVar
from urllib.parse import quote, urlsplit

from pydantic import ValidationError

from harness.records.errors import PullRankError
from harness.records.judgement import MAX_BYTES as MAX_JUDGEMENT_BYTES
from scripts.boards.board_facts import SiteModel
from scripts.common.http_request import BadRedirect, RequestFailed, RequestLimits, download
from scripts.common.text import plain, shorten

F = TypeVar("F", bound=SiteModel)

LIMITS = RequestLimits(max_bytes=64 * 1024 * 1024, timeout_s=20.0)
JUDGEMENT_LIMITS = replace(LIMITS, max_bytes=MAX_JUDGEMENT_BYTES)

_LOOPBACK = ("127.0.0.1", "::1", "localhost")


class SiteError(PullRankError):
    """The address is wrong, or this is not a PullRank site."""


class SiteFailed(SiteError):
    """The site cannot be read now."""

    exit_code = 3


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
    content = _fetch(url, JUDGEMENT_LIMITS, same_host=True)
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


def _fetch(url: str, limits: RequestLimits = LIMITS, *, same_host: bool = False) -> bytes | None:
    try:
        answer = download(url, limits, same_host=same_host)
    except BadRedirect as error:
        raise SiteError(f"{url} {error}; use the new address if you trust it") from None
    except RequestFailed as error:
        raise SiteFailed(f"{url} cannot be read ({error}); is the address right? If it is, try again later") from None
    if answer.status == 404:
        return None
    if not answer.is_ok:
        is_failure = answer.status >= 500 or answer.status == 429
        then = "; try again later" if is_failure else ""
        raise (SiteFailed if is_failure else SiteError)(f"{url}: the site answers {answer.status}{then}")
    return answer.content
