"""HTTP requests to Discord, published sites, GitHub's downloads and a reader's model.

Requests to the API of the competition's repository: `scripts/github/wire.py`.

    send        one request; the answer may have any status, also that of a redirect
    download    GET or HEAD; redirects are followed, but never away from https

Answers are limited in size and time.  An error repeats neither the URL nor the server's words: both may have a secret.

We use the standard library: unlike other clients, it shows whether a request was sent before an error (`NotSent`).
Like git, it uses the environment's proxies and the system's certificates.
"""

from __future__ import annotations

import string
import time
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import Message
from http.client import HTTPException, HTTPResponse
from urllib.error import URLError
from urllib.parse import quote, urljoin, urlsplit

from scripts.common.text import plain, shorten

MAX_REDIRECTS = 10
_REDIRECTS = frozenset({301, 302, 303, 307, 308})


class RequestFailed(Exception):
    """There is no whole answer.  The message is a clause, such as `the answer was cut off`."""


class NotSent(RequestFailed):
    """The connection failed, so the server never had the whole request."""


class BadRedirect(RequestFailed):
    """A redirect that must not be followed, such as `redirects away from https`."""


@dataclass(frozen=True, kw_only=True)
class RequestLimits:
    """`timeout_s` is the longest time without a byte, `longest_s` the longest for the whole answer."""

    max_bytes: int
    timeout_s: float
    longest_s: float = 120.0


@dataclass(frozen=True, kw_only=True)
class HttpResponse:
    """A server's answer.  The content of a refusal (400 and above) is empty if it could not be read."""

    status: int
    reason: str
    headers: Message
    content: bytes

    @property
    def is_ok(self) -> bool:
        return 200 <= self.status < 300


class _EveryStatus(urllib.request.HTTPErrorProcessor):
    """Return answers of all statuses: none is an exception, and no redirect is followed."""

    def http_response(self, request: urllib.request.Request, response: HTTPResponse) -> HTTPResponse:  # noqa: ARG002
        return response

    https_response = http_response


def send(
    method: str, url: str, limits: RequestLimits, *, body: bytes | None = None, headers: Mapping[str, str] | None = None
) -> HttpResponse:
    """Send a request once.

    Raises:
        NotSent: the connection failed.
        RequestFailed: there is no whole answer within the limits, or the URL is malformed.
    """
    try:
        if urlsplit(url).scheme not in ("http", "https"):
            raise RequestFailed("its address is not https")
        request = urllib.request.Request(  # noqa: S310  checked above
            url, data=body, headers={"User-Agent": "pullrank", **(headers or {})}, method=method
        )
        with urllib.request.build_opener(_EveryStatus).open(request, timeout=limits.timeout_s) as answer:
            content = _read(answer, limits)
            return HttpResponse(status=answer.status, reason=answer.reason, headers=answer.headers, content=content)
    except URLError as error:
        raise NotSent(_describe(error.reason)) from None
    except OSError as error:
        raise RequestFailed(_describe(error)) from None
    except (HTTPException, ValueError) as error:
        raise RequestFailed(f"its address or its answer is malformed: {type(error).__name__}") from None


def download(url: str, limits: RequestLimits, *, method: str = "GET", same_host: bool = False) -> HttpResponse:
    """GET or HEAD, with redirects followed; with `same_host`, none to another host.

    Raises:
        BadRedirect: it redirects away from https, or to another host.
        RequestFailed: as for `send`.
    """
    answer = send(method, url, limits)
    for _ in range(MAX_REDIRECTS):
        location = answer.headers.get("Location")
        if answer.status not in _REDIRECTS or not location:
            break
        url = _redirected(url, location, same_host=same_host)
        answer = send(method, url, limits)
    return answer


def _redirected(url: str, location: str, *, same_host: bool) -> str:
    try:
        target = quote(urljoin(url, location), encoding="iso-8859-1", safe=string.punctuation)
        before, after = urlsplit(url), urlsplit(target)
    except ValueError:
        raise BadRedirect("redirects to a malformed address") from None
    if after.scheme not in ("https", before.scheme):
        raise BadRedirect("redirects away from https")
    if same_host and after.netloc != before.netloc:
        raise BadRedirect(f"redirects to another host, {shorten(plain(after.netloc), 100)}")
    return target


def _read(answer: HTTPResponse, limits: RequestLimits) -> bytes:
    try:
        return _read_whole(answer, limits)
    except (RequestFailed, OSError, HTTPException):
        if answer.status < 400:
            raise
        return b""  # A refusal's status says enough.


def _read_whole(answer: HTTPResponse, limits: RequestLimits) -> bytes:
    until, content = time.monotonic() + limits.longest_s, bytearray()
    while some := answer.read1(1 << 16):  # returns what is available, so that a slow server cannot evade the time limit
        content += some
        if len(content) > limits.max_bytes:
            raise RequestFailed(f"the answer is larger than {limits.max_bytes:,} bytes")
        if time.monotonic() > until:
            raise RequestFailed(f"the answer took over {limits.longest_s:.0f} s")
    # `read1` does not report an answer that was cut off: it leaves the number of missing bytes.
    if answer.length or not answer.headers.get("Content-Length", "0").isdecimal():
        raise RequestFailed("the answer was cut off")
    return bytes(content)


def _describe(error: object) -> str:
    return shorten(" ".join(plain(str(error) or type(error).__name__).split()), 200)
