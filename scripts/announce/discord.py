"""HTTP requests to a channel on Discord.  Nothing that leaves this module, even a repr or exception, has the token.

    look           GET      check that the webhook exists and Discord answers
    post           POST     never repeated after an unclear answer: it would post twice
    edit           PATCH    repeated as needed

    429                                       not done: retry after the wait that Discord asks for
    429, too many edits of old messages       this edit has to wait for a later run
    no connection, 503, 521 to 523, 525, 526  not done: retry a few times
    500, 502, 504, time-out, broken off       unclear.  Retry a GET or PATCH; a POST raises `InDoubt`
    404                                       the webhook or the message was deleted
    the channel takes no such message         another address helps; an archived thread opens again at the next post
    another 4xx                               refused for good

A webhook cannot list its messages, so a lost answer to a post stays in doubt.

discord-webhook makes the embeds but does not send them: its `execute` hides whether a request was sent, fails on an
answer that is not JSON, and waits for a rate limit without end.
"""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from harness import __version__
from harness.records.errors import PullRankError
from scripts.announce.webhook_address import WebhookAddress
from scripts.common.http_request import HttpResponse, NotSent, RequestFailed, RequestLimits, send
from scripts.common.text import plain, shorten

TIMEOUT_S = 15.0
ATTEMPTS = 5
LONGEST_WAIT_S = 60.0
"""The longest wait before one request; after that, the next run continues."""

MAX_ANSWER = 1 << 20

_NOT_DONE = frozenset({503, 521, 522, 523, 525, 526, 530})
"""503 by its definition; the others are Cloudflare's for requests that did not reach Discord."""

_UNKNOWN_CHANNEL = 10003
_UNKNOWN_MESSAGE = 10008
_ARCHIVED_THREAD = 50083
_TOO_MANY_EDITS = 30046
"""Of messages that are older than an hour; newer ones can still be edited."""
_WRONG_CHANNEL = {
    160005: "the thread is locked; unlock it, or name another one at the end of the secret, ?thread_id=…",
    220001: "a forum needs a thread: add ?thread_id=… and its number to the address in the secret",
}
_ADDRESS = (
    "an address such as https://discord.com/api/webhooks/123/abc: on Discord, Edit Channel → Integrations → Webhooks"
)


class WebhookError(PullRankError):
    """A request failed, and retrying now is no use.

    `is_final`: it will never succeed, but requests about other messages may.  A deleted message is final; a deleted
    webhook is not, since somebody can put another one into the secret.  `is_gone`: the message was deleted.
    `is_archived`: the message is in a thread that the next post opens again.  `is_later`: this edit has to wait for a
    later run.
    """

    def __init__(
        self,
        message: str,
        *,
        is_final: bool = False,
        is_gone: bool = False,
        is_archived: bool = False,
        is_later: bool = False,
    ) -> None:
        super().__init__(message)
        self.is_final = is_final or is_gone
        self.is_gone = is_gone
        self.is_archived = is_archived
        self.is_later = is_later or is_archived


class InDoubt(PullRankError):
    """A post whose answer was lost: the message may be on Discord or not."""


class _Again(Exception):
    """Retry: Discord did not process the request, or it may be repeated; `wait_s` is the wait that Discord asks for."""

    def __init__(self, reason: str, wait_s: float | None = None) -> None:
        super().__init__(reason)
        self.wait_s = wait_s


@dataclass(frozen=True, kw_only=True)
class DiscordChannel:
    """A channel.

    Attributes:
        name: the secret's name, which is public.
        home: the competition's repository, for the user agent: Discord may block a bot that does not give its address.
        patience_s: the longest wait before one request.
    """

    name: str
    address: WebhookAddress
    home: str
    timeout_s: float = TIMEOUT_S
    patience_s: float = LONGEST_WAIT_S

    @classmethod
    def at(cls, address: str, name: str, home: str, **pace: float) -> DiscordChannel:
        """The webhook at an address, which may name a thread: `…?thread_id=123`.

        Raises:
            WebhookError: this is no webhook's address; the message does not repeat it.
        """
        try:
            return cls(name=name, address=WebhookAddress.parse(address), home=home, **pace)
        except ValueError:
            raise WebhookError(f"{name} is no webhook. It should be {_ADDRESS}", is_final=True) from None

    def look(self) -> None:
        """Check that the webhook exists and that Discord answers.  Raises WebhookError: it does not."""
        self._send("GET")

    def post(self, payload: dict[str, Any]) -> str:
        """Post a message; returns its id.  Raises WebhookError: it was not posted; InDoubt: it may have been."""
        answer = self._send("POST", payload=payload)
        message = str(answer.get("id", "")) if isinstance(answer, dict) else ""
        if not re.fullmatch(r"[0-9]{1,20}", message):
            raise InDoubt(f"{self.name}: Discord accepted the message but returned no id for it")
        return message

    def edit(self, message: str, payload: dict[str, Any]) -> None:
        """Replace the contents of a message.  Raises WebhookError: it was not changed."""
        self._send("PATCH", f"/messages/{message}", payload)

    def _send(self, method: str, path: str = "", payload: dict[str, Any] | None = None) -> object:
        """Send a request, with retries; returns the answer's JSON, or None if it is empty."""
        query = {"wait": "true"} if method == "POST" else {}
        if self.address.thread and method != "GET":
            query["thread_id"] = self.address.thread
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
        """Send a request once.  Raises _Again: it may be retried; WebhookError, InDoubt: it may not."""
        url = f"{self.address.base}{self.address.token}{path}{'?' if query else ''}{urlencode(query)}"
        body = None if payload is None else json.dumps(payload).encode()
        headers = {"Content-Type": "application/json", "User-Agent": f"DiscordBot ({self.home}, {__version__})"}
        limits = RequestLimits(max_bytes=MAX_ANSWER, timeout_s=self.timeout_s)
        try:
            answer = send(method, url, limits, body=body, headers=headers)
        except NotSent as error:
            raise _Again(f"no connection to Discord ({self._brief(error)})") from None
        except RequestFailed as error:
            raise self._lost(method, f"no answer from Discord ({self._brief(error)})") from None
        if not answer.is_ok:
            raise self._refusal(method, answer)
        try:
            return json.loads(answer.content) if answer.content else None
        except ValueError:
            raise self._lost(method, "an answer that is not Discord's") from None

    def _lost(self, method: str, reason: str) -> Exception:
        return InDoubt(f"{self.name}: {reason}") if method == "POST" else _Again(reason)

    def _refusal(self, method: str, answer: HttpResponse) -> Exception:
        said, status = _object_of(answer), answer.status
        reason = f"{status} {self._brief(said.get('message') or answer.reason)}"
        if said.get("code") == _TOO_MANY_EDITS:
            return WebhookError(f"{self.name}: too many edits of old messages ({reason})", is_later=True)
        if status == 429:
            return _Again("Discord's rate limit", _wait_of(said, answer))
        if status in _NOT_DONE:
            return _Again(f"Discord is not available ({reason})")
        if status >= 500 or status < 400:
            return self._lost(method, f"Discord failed ({reason})")
        if status == 404 and said.get("code") == _UNKNOWN_MESSAGE:
            return WebhookError(f"{self.name}: the message was deleted on Discord", is_gone=True)
        if said.get("code") == _ARCHIVED_THREAD:
            return WebhookError(f"{self.name}: the thread is archived until the next post ({reason})", is_archived=True)
        if way_out := _WRONG_CHANNEL.get(said.get("code", 0)):
            return WebhookError(f"{self.name}: {way_out} ({reason})")
        if status == 404 and said.get("code") == _UNKNOWN_CHANNEL:
            way_out = "there is no such thread; name another one at the end of the secret, ?thread_id=…, or none"
            return WebhookError(f"{self.name}: {way_out} ({reason})")
        if status in (401, 403, 404):
            way_out = f"the webhook was deleted, or its token is wrong; put a new one into the secret {self.name}"
            return WebhookError(f"{self.name}: {way_out} ({reason})")
        return WebhookError(f"{self.name}: Discord refused ({reason})", is_final=True)

    def _brief(self, error: object) -> str:
        """One short line of an error's text, without the token."""
        words = " ".join(plain(str(error) or type(error).__name__).split())
        return shorten(words.replace(self.address.token, "…"), 200)


def _object_of(answer: HttpResponse) -> dict[str, Any]:
    """The JSON object in a refusal; empty if it has none."""
    try:
        said = json.loads(answer.content)
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


def _wait_of(said: dict[str, Any], answer: HttpResponse) -> float:
    """The wait that Discord asks for, in seconds; the body is more precise, but Cloudflare sends only the header."""
    for value in (said.get("retry_after"), answer.headers.get("Retry-After")):
        try:
            wait_s = float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError, OverflowError):
            continue
        if 0 <= wait_s < 1e9:
            return wait_s + 0.1
    return 5.0
