"""Types for GitHub's data: accounts, pull requests, files, comments, runs.

Each type has an `of` that parses GitHub's JSON, which is the same in API answers and event payloads.  A missing field
or a wrong type is a `GitHubError`.  Numbers and hashes are validated; all other text is untrusted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Self, TypeVar

from harness.records.errors import PullRankError

T = TypeVar("T")

_SHA = re.compile(r"[0-9a-f]{40}")


class GitHubError(PullRankError):
    """GitHub cannot be reached, refuses a request, fails, or sends a malformed answer.

    `status` is the HTTP status, if there was an answer.
    """

    exit_code = 3

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class RateLimitError(GitHubError):
    """Too many requests: GitHub did nothing, and waiting helps."""


class Permission(StrEnum):
    """What an account may do to the repository."""

    NONE = "none"
    READ = "read"
    WRITE = "write"
    ADMIN = "admin"

    @property
    def can_write(self) -> bool:
        return self in (Permission.WRITE, Permission.ADMIN)


class MergeState(StrEnum):
    MERGED = "merged"
    MOVED = "moved"
    """The head has changed since the merge was decided."""
    REFUSED = "refused"
    """A conflict, a draft, or a rule of the repository."""


class Reaction(StrEnum):
    ROCKET = "rocket"
    THUMBS_UP = "+1"
    CONFUSED = "confused"


@dataclass(frozen=True, kw_only=True)
class Account:
    """A login can pass to another account; the id never changes."""

    id: int
    login: str
    is_bot: bool = False

    @classmethod
    def of(cls, payload: object) -> Self:
        """An account; null is a deleted one, which GitHub shows as `ghost`."""
        if payload is None:
            return cls(id=10137, login="ghost")
        return cls(
            id=require(payload, int, "id"),
            login=require(payload, str, "login"),
            is_bot=find(payload, str, "type") == "Bot",
        )


PER_PAGE = 100
"""GitHub's largest page size."""
MAX_LISTED = 1000
"""The most items of a list that we read."""

ACTIONS_BOT = Account(id=41898282, login="github-actions[bot]", is_bot=True)
"""The account of a workflow's own token."""


@dataclass(frozen=True, kw_only=True)
class PullRequest:
    """A pull request.

    `updated_at` changes with every activity, such as a comment or a label.  `head_at` is the last push to the head's
    repository, so the head was pushed at or before it.  For a fork, only its author's pushes count.  For a branch of
    the competition's own repository, every merge counts; a deleted fork has no time of a push.  In both cases `head_at`
    may be as late as `updated_at`.
    """

    number: int
    author: Account
    head_sha: str
    base_ref: str
    is_draft: bool
    is_open: bool
    merged: bool
    updated_at: datetime
    head_at: datetime

    @classmethod
    def of(cls, payload: object) -> Self:
        return cls(
            number=require(payload, int, "number"),
            author=Account.of(find(payload, dict, "user")),
            head_sha=require_sha(payload, "head", "sha"),
            base_ref=require(payload, str, "base", "ref"),
            is_draft=find(payload, bool, "draft") or False,
            is_open=require(payload, str, "state") == "open",
            # A list of pull requests has no `merged`.
            merged=find(payload, str, "merged_at") is not None,
            updated_at=require_time(payload, "updated_at"),
            head_at=_head_at(payload),
        )


def _head_at(payload: object) -> datetime:
    updated_at, opened_at = require_time(payload, "updated_at"), require_time(payload, "created_at")
    pushed_at = find_time(payload, "head", "repo", "pushed_at") or updated_at
    return min(updated_at, max(opened_at, pushed_at))


@dataclass(frozen=True, kw_only=True)
class ChangedFile:
    """A changed file; `status` is GitHub's: added, modified, removed, renamed, copied, changed or unchanged."""

    path: str
    status: str
    previous_path: str | None = None

    @classmethod
    def of(cls, payload: object) -> Self:
        return cls(
            path=require(payload, str, "filename"),
            status=require(payload, str, "status"),
            previous_path=find(payload, str, "previous_filename"),
        )


@dataclass(frozen=True, kw_only=True)
class BlobInfo:
    """A file in a tree.  `mode` is git's: 100644 plain, 100755 executable, 120000 a symbolic link.

    `size` is in bytes; for a file that is too large to fetch, it is a lower bound.
    """

    path: str
    sha: str
    mode: str
    size: int

    @property
    def is_plain(self) -> bool:
        return self.mode == "100644"


@dataclass(frozen=True, kw_only=True)
class Comment:
    id: int
    author: Account
    body: str
    created_at: datetime
    updated_at: datetime

    @classmethod
    def of(cls, payload: object) -> Self:
        return cls(
            id=require(payload, int, "id"),
            author=Account.of(find(payload, dict, "user")),
            body=find(payload, str, "body") or "",
            created_at=require_time(payload, "created_at"),
            updated_at=require_time(payload, "updated_at"),
        )


@dataclass(frozen=True, kw_only=True)
class WorkflowRun:
    """A workflow run; `title` comes from the workflow's `run-name`, `conclusion` is set once it is `completed`."""

    id: int
    title: str
    event: str
    status: str
    conclusion: str | None
    created_at: datetime

    @property
    def is_done(self) -> bool:
        return self.status == "completed"

    @classmethod
    def of(cls, payload: object) -> Self:
        return cls(
            id=require(payload, int, "id"),
            title=require(payload, str, "display_title"),
            event=require(payload, str, "event"),
            status=require(payload, str, "status"),
            conclusion=find(payload, str, "conclusion"),
            created_at=require_time(payload, "created_at"),
        )


@dataclass(frozen=True, kw_only=True)
class Job:
    """A job of a run; its times come from GitHub's clock, not the runner's."""

    name: str
    started_at: datetime | None
    completed_at: datetime | None
    runner: str

    @classmethod
    def of(cls, payload: object) -> Self:
        return cls(
            name=require(payload, str, "name"),
            started_at=find_time(payload, "started_at"),
            completed_at=find_time(payload, "completed_at"),
            runner=find(payload, str, "runner_name") or "",
        )


@dataclass(frozen=True, kw_only=True)
class Artifact:
    """An artifact; `digest` is GitHub's SHA-256 of the zip."""

    id: int
    name: str
    size: int
    digest: str | None
    is_expired: bool

    @classmethod
    def of(cls, payload: object) -> Self:
        return cls(
            id=require(payload, int, "id"),
            name=require(payload, str, "name"),
            size=require(payload, int, "size_in_bytes"),
            digest=(find(payload, str, "digest") or "").removeprefix("sha256:") or None,
            is_expired=require(payload, bool, "expired"),
        )


@dataclass(frozen=True, kw_only=True)
class MergeResult:
    """The result of a merge; `reason` is GitHub's message for a refusal."""

    state: MergeState
    reason: str = ""


def find(payload: object, kind: type[T], *place: str) -> T | None:
    """The value at a place in GitHub's JSON: `find(event, int, "issue", "number")`; None if it is absent or null.

    Raises:
        GitHubError: the value has another type.
    """
    value = payload
    for key in place:
        if value is not None and not isinstance(value, dict):
            raise _wrong(place)
        value = value.get(key) if value else None
    if value is None:
        return None
    # In Python, True is an int; in JSON, true is not a number.
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise _wrong(place)
    return value


def require(payload: object, kind: type[T], *place: str) -> T:
    """Like `find`, for a required value."""
    value = find(payload, kind, *place)
    if value is None:
        raise _wrong(place)
    return value


def require_sha(payload: object, *place: str) -> str:
    sha = require(payload, str, *place)
    if not _SHA.fullmatch(sha):
        raise _wrong(place)
    return sha


def require_time(payload: object, *place: str) -> datetime:
    time = find_time(payload, *place)
    if time is None:
        raise _wrong(place)
    return time


def find_time(payload: object, *place: str) -> datetime | None:
    """A time with a time zone; None if it is absent."""
    text = find(payload, str, *place)
    if text is None:
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise _wrong(place) from None
    if time.utcoffset() is None:
        raise _wrong(place)
    return time


def items(payload: object, *place: str) -> Iterator[object]:
    """The items of a list in GitHub's JSON."""
    yield from require(payload, list, *place)


def _wrong(place: tuple[str, ...]) -> GitHubError:
    return GitHubError(
        f"GitHub's answer cannot be read: '{'.'.join(place) or 'it'}' is missing or malformed; try again"
    )
