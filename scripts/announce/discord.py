"""HTTP requests to a channel on Discord.  Nothing that leaves this module, even a repr or exception, has the token.

    look           GET      check that the webhook exists and Discord answers
    post           POST     never repeated after an unclear answer: it would post twice
    edit           PATCH    repeated as needed

    429                                       not done: retry after the wait that Discord asks for
    no connection, 503, 521 to 523, 525, 526  not done: retry a few times
    500, 502, 504, time-out, broken off       unclear.  Retry a GET or PATCH; a POST raises `InDoubt`
    404                                       the webhook or the message was deleted
    another 4xx                               refused for good

A webhook cannot list its messages, so a lost answer to a post stays in doubt.
"""

from __future__ import annotations

import json
import re
import time
import urllib.request
from dataclasses import dataclass, field
from http.client import HTTPException, HTTPResponse
from typing import Any, cast
from urllib.error import HTTPError, URLError
from urllib.parse import parse_qs, urlsplit

from harness.records.errors import PullRankError
from scripts.common.text import plain, shorten

TIMEOUT_S = 15.0
ATTEMPTS = 5
LONGEST_WAIT_S = 60.0
"""The longest wait before one request; after that, the next run continues."""

MAX_ANSWER = 1 << 20

_HOSTS = re.compile(r"(?:(?:ptb|canary)\.)?discord(?:app)?\.com")
_PATH = re.compile(r"(/api(?:/v[0-9]+)?/webhooks/[0-9]{1,20}/)([A-Za-z0-9_-]{1,128})/?")
_NOT_DONE = frozenset({503, 521, 522, 523, 525, 526, 530})
"""503 by its definition; the others are Cloudflare's for requests that did not reach Discord."""

_UNKNOWN_CHANNEL = 10003
_UNKNOWN_MESSAGE = 10008
_ADDRESS = (
    "an address such as https://discord.com/api/webhooks/123/abc: on Discord, Edit Channel → Integrations → Webhooks"
)
_USER_AGENT = "DiscordBot (pullrank, 1)"
"""Cloudflare rejects Python's default user agent."""


class WebhookError(PullRankError):
    """A request failed, and retrying now is no use.  `is_final`: retrying the same request later is no use either."""

    def __init__(self, message: str, *, is_final: bool = False) -> None:
        super().__init__(message)
        self.is_final = is_final


class WebhookGone(WebhookError):
    """The webhook was deleted, or its token is wrong: nothing can be done in this channel."""


class MessageGone(WebhookError):
    """Somebody deleted the message."""


class InDoubt(PullRankError):
    """A post whose answer was lost: the message may be on Discord or not."""


class _Again(Exception):
    """Retry: the request was not done, or may be repeated; `wait_s` is the wait that Discord asks for."""

    def __init__(self, reason: str, wait_s: float | None = None) -> None:
        super().__init__(reason)
        self.wait_s = wait_s


class _StayHere(urllib.request.HTTPRedirectHandler):
    """Follow no redirects: Discord uses none, and one could lead anywhere."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(_StayHere)


@dataclass(frozen=True, kw_only=True)
class DiscordChannel:
    """A channel.  `name` is the secret's name, which is public; `patience_s` is the longest wait before one request."""

    name: str
    base: str = field(repr=False)
    token: str = field(repr=False)
    thread: str = ""
    timeout_s: float = TIMEOUT_S
    patience_s: float = LONGEST_WAIT_S

    @classmethod
    def at(cls, address: str, name: str, **pace: float) -> DiscordChannel:
        """The webhook at an address, which may name a thread: `…?thread_id=123`.

        Raises:
            WebhookError: this is no webhook's address; the message does not repeat it.
        """
        try:
            parts = urlsplit(address.strip())
            host, _ = parts.hostname, parts.port  # This may raise ValueError, too.
        except ValueError:
            raise WebhookError(f"{name} is no webhook. It should be {_ADDRESS}", is_final=True) from None
        is_local = parts.scheme == "http" and host == "127.0.0.1"
        is_discord = parts.scheme == "https" and _HOSTS.fullmatch(parts.netloc.lower())
        path, query = _PATH.fullmatch(parts.path), parse_qs(parts.query)
        thread = query.pop("thread_id", [""])[0]
        if not path or not (is_local or is_discord) or query or not re.fullmatch(r"[0-9]{0,20}", thread):
            raise WebhookError(f"{name} is no webhook. It should be {_ADDRESS}", is_final=True)
        base = f"{parts.scheme}://{parts.netloc}{path[1]}"
        return cls(name=name, base=base, token=path[2], thread=thread, **pace)

    def look(self) -> None:
        """Check that the webhook exists and that Discord answers.

        Raises:
            WebhookError: it does not.
        """
        self._send("GET", "")

    def post(self, payload: dict[str, Any]) -> str:
        """Post a message; returns its id.

        Raises:
            WebhookError: it was not posted.
            InDoubt: it may have been posted.
        """
        answer = self._send("POST", "", {"wait": "true"}, payload)
        message = str(answer.get("id", "")) if isinstance(answer, dict) else ""
        if not re.fullmatch(r"[0-9]{1,20}", message):
            raise InDoubt(f"{self.name}: Discord accepted the message but returned no id for it")
        return message

    def edit(self, message: str, payload: dict[str, Any]) -> None:
        """Replace the contents of a message.

        Raises:
            WebhookError: it was not changed.
        """
        self._send("PATCH", f"/messages/{message}", {}, payload)

    def _send(
        self, method: str, path: str, query: dict[str, str] | None = None, payload: dict[str, Any] | None = None
    ) -> object:
        """Send a request, with retries; returns the answer's JSON, or None if it is empty."""
        query = {**(query or {}), **({"thread_id": self.thread} if self.thread and method != "GET" else {})}
        reason = ""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return self._try(method, path, query, payload)
            except _Again as again:
                reason = str(again)
                wait_s = min(2.0 ** (attempt - 1), self.patience_s) if again.wait_s is None else again.wait_s
            if wait_s > self.patience_s:
                raise WebhookError(f"{self.name}: {reason}; it asks to wait {wait_s:.0f} s, so the next run continues")
            if attempt < ATTEMPTS:
                time.sleep(wait_s)
        raise WebhookError(f"{self.name}: {reason}, {ATTEMPTS} times; the next run continues")

    def _try(self, method: str, path: str, query: dict[str, str], payload: dict[str, Any] | None) -> object:
        """Send a request once.

        Raises:
            _Again: it may be retried.
            WebhookError, InDoubt: it may not.
        """
        asked = "&".join(f"{name}={value}" for name, value in query.items())
        request = urllib.request.Request(  # noqa: S310  (the scheme is checked in `at`)
            f"{self.base}{self.token}{path}{'?' if asked else ''}{asked}",
            data=None if payload is None else json.dumps(payload).encode(),
            headers={"Content-Type": "application/json", "User-Agent": _USER_AGENT},
            method=method,
        )
        try:
            with _OPENER.open(request, timeout=self.timeout_s) as answer:
                return self._read(method, cast(HTTPResponse, answer))
        except HTTPError as error:
            with error:
                raise self._refusal(method, error) from None
        except URLError as error:
            # The connection failed, so Discord never had the whole request.
            raise _Again(f"no connection to Discord ({self._brief(error.reason)})") from None
        except (OSError, HTTPException) as error:
            raise self._lost(method, f"no answer from Discord ({self._brief(error)})") from None

    def _read(self, method: str, answer: HTTPResponse) -> object:
        content = answer.read(MAX_ANSWER)
        if answer.status == 204 or not content:
            return None
        try:
            return json.loads(content)
        except ValueError:
            raise self._lost(method, "an answer that is not Discord's") from None

    def _lost(self, method: str, reason: str) -> Exception:
        return InDoubt(f"{self.name}: {reason}") if method == "POST" else _Again(reason)

    def _refusal(self, method: str, error: HTTPError) -> Exception:
        said = _read_error(error)
        code, reason = said.get("code"), self._brief(said.get("message") or error.reason)
        if error.code == 429:
            return _Again("Discord's rate limit", _wait_of(said, error))
        if error.code in _NOT_DONE:
            return _Again(f"Discord is not available ({error.code} {reason})")
        if error.code >= 500 or error.code < 400:
            return self._lost(method, f"Discord failed ({error.code} {reason})")
        if error.code == 404 and code == _UNKNOWN_MESSAGE:
            return MessageGone(f"{self.name}: the message was deleted on Discord", is_final=True)
        if error.code == 404 and code == _UNKNOWN_CHANNEL:
            way_out = "there is no such thread; name another one at the end of the secret, ?thread_id=…, or none"
            return WebhookGone(f"{self.name}: {way_out} (404 {reason})")
        if error.code in (401, 403, 404):
            way_out = f"the webhook was deleted, or its token is wrong; put a new one into the secret {self.name}"
            return WebhookGone(f"{self.name}: {way_out} ({error.code} {reason})")
        return WebhookError(f"{self.name}: Discord refused ({error.code} {reason})", is_final=True)

    def _brief(self, error: object) -> str:
        """One short line of an error's text, without the token."""
        words = " ".join(plain(str(error) or type(error).__name__).split())
        return shorten(words.replace(self.token, "…"), 200)


def _read_error(error: HTTPError) -> dict[str, Any]:
    try:
        said = json.loads(error.read(MAX_ANSWER))
    except (OSError, HTTPException, ValueError):
        return {}
    return said if isinstance(said, dict) else {}


def _wait_of(said: dict[str, Any], error: HTTPError) -> float:
    """The wait that Discord asks for, in seconds; the body is more precise, but Cloudflare sends only the header."""
    for value in (said.get("retry_after"), error.headers.get("Retry-After")):
        try:
            wait_s = float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            continue
        if 0 <= wait_s < 1e9:
            return wait_s + 0.1
    return 5.0
