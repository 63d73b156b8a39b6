"""Failures of requests: the n-th request of a kind fails, before or after it takes effect."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase


class Way(StrEnum):
    """How a request fails."""

    STATUS = "status"
    """With an error of GitHub's; see `Failure.status`."""
    PRIMARY_LIMIT = "primary limit"
    SECONDARY_LIMIT = "secondary limit"
    SILENCE = "silence"
    """No answer for `Failure.seconds`, then the connection ends."""
    RESET = "reset"
    HTML = "html"
    """A page instead of JSON, and a status of 200."""
    TRUNCATED = "truncated"
    """JSON that ends in the middle, sent as if complete."""
    CUT_OFF = "cut off"
    """A connection that ends in the middle of the body."""
    NONSENSE = "nonsense"
    """JSON with another structure than GitHub's."""


@dataclass(frozen=True, kw_only=True)
class Failure:
    """`is_done`: whether the request takes effect before it fails."""

    way: Way = Way.STATUS
    status: int = 502
    is_done: bool = False
    seconds: float = 1
    retry_after: int | None = None


@dataclass
class Rule:
    """`pattern` matches `METHOD /path`, with `*`; `nth` counts matching requests from one."""

    pattern: str
    failure: Failure
    nth: int
    times: int
    seen: int = 0

    def is_due(self, request: str) -> bool:
        if not fnmatchcase(request, self.pattern):
            return False
        self.seen += 1
        return self.nth <= self.seen < self.nth + self.times


class Failures:
    """The rules that a test has set."""

    def __init__(self) -> None:
        self._rules: list[Rule] = []
        self._lock = threading.Lock()

    def add(self, pattern: str, failure: Failure, *, nth: int = 1, times: int = 1) -> None:
        with self._lock:
            self._rules.append(Rule(pattern, failure, nth, times))

    def clear(self) -> None:
        with self._lock:
            self._rules.clear()

    def find(self, request: str) -> Failure | None:
        """The failure for this request, if any.  Every rule that it matches counts it."""
        with self._lock:
            due = [rule.failure for rule in self._rules if rule.is_due(request)]
        return due[0] if due else None
