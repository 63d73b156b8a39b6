"""A published site, read over the web: its JSON and nothing else, in a size that is bounded and a time that is, too."""

from __future__ import annotations

import urllib.request
from http.client import HTTPException, HTTPResponse
from typing import TypeVar
from urllib.error import HTTPError
from urllib.parse import quote, urlsplit

from pydantic import ValidationError

from harness.errors import PullRankError
from scripts.boards.facts import Facts
from scripts.text import plain, shorten

F = TypeVar("F", bound=Facts)

MAX_BYTES = 64 * 1024 * 1024
TIMEOUT_S = 20.0


class SiteError(PullRankError):
    """The site cannot be read, or is none of ours."""


class _NoFlight(urllib.request.HTTPRedirectHandler):
    """Follows a site that has moved, and nothing that leads from https to http, or out of the web."""

    def redirect_request(
        self, req: urllib.request.Request, fp: object, code: int, msg: str, headers: object, newurl: str
    ) -> urllib.request.Request | None:
        before, after = urlsplit(req.full_url).scheme, urlsplit(newurl).scheme
        if after not in ("https", before):
            raise SiteError(f"{req.full_url} leads away from https; say where the site has gone with --site")
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


def _fetch(url: str) -> bytes | None:
    opener = urllib.request.build_opener(_NoFlight)
    request = urllib.request.Request(url, headers={"User-Agent": "pullrank"})  # noqa: S310  the scheme was checked
    try:
        with opener.open(request, timeout=TIMEOUT_S) as answer:
            return _read(url, answer)
    except HTTPError as error:
        if error.code == 404:
            return None
        raise SiteError(f"{url}: the site answers {error.code}; try again later") from None
    except (OSError, HTTPException, ValueError) as error:
        raise SiteError(f"{url} cannot be read ({shorten(plain(str(error)), 200)}); is the address right?") from None


def _read(url: str, answer: HTTPResponse) -> bytes:
    content = answer.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise SiteError(f"{url} is larger than {MAX_BYTES // 1024**2} MiB")
    # `read` with a limit does not say so itself.
    if len(content) < int(answer.headers.get("Content-Length") or 0):
        raise SiteError(f"{url} cannot be read: it was cut off on its way; try again")
    return content
