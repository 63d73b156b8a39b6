"""Types for GitHub's data: accounts, pull requests, files, comments, runs.

`of` parses GitHub's JSON, which is the same in API answers and event payloads.  A missing field or a wrong type is a
`GitHubError`.  Numbers and hashes are validated; all other text is untrusted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Self, TypeVar

from pydantic import (
    AfterValidator,
    AliasPath,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
)

from harness.records.errors import PullRankError
from harness.records.fields import Sha

T = TypeVar("T")


class GitHubError(PullRankError):
    """GitHub cannot be reached, refuses a request, fails, or sends a malformed answer.

    `status` is the HTTP status, if there was an answer.
    """

    exit_code = 3

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status

    @property
    def is_of_no_commit(self) -> bool:
        """Whether the commit is gone, for example after a force push: then it never accepts a check run."""
        return self.status == 422 and "No commit found" in str(self)


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
    FORBIDDEN = "forbidden"
    """The token may not do it."""


class Reaction(StrEnum):
    ROCKET = "rocket"
    THUMBS_UP = "+1"
    CONFUSED = "confused"


class FromGitHub(BaseModel):
    """Base class of the types that GitHub's JSON gives."""

    model_config = ConfigDict(frozen=True, strict=True, validate_by_name=True, validate_by_alias=True)

    @classmethod
    def of(cls, payload: Any) -> Self:
        """Parse GitHub's JSON.

        Raises:
            GitHubError: a field is missing or malformed.
        """
        try:
            return cls.model_validate(payload)
        except ValidationError as error:
            raise _wrong(error.errors()[0]["loc"]) from None


Time = Annotated[AwareDatetime, BeforeValidator(lambda it: datetime.fromisoformat(it) if isinstance(it, str) else it)]
OrEmpty = Annotated[str, BeforeValidator(lambda text: "" if text is None else text)]
OrFalse = Annotated[bool, BeforeValidator(lambda flag: False if flag is None else flag)]


class Account(FromGitHub):
    """A login can pass to another account; the id never changes."""

    id: int
    login: str
    is_bot: Annotated[bool, BeforeValidator(lambda kind: kind in (True, "Bot"))] = Field(
        default=False, validation_alias="type"
    )

    @classmethod
    def of(cls, payload: Any) -> Self:
        """An account; null is a deleted one, which GitHub shows as `ghost`."""
        return cls(id=10137, login="ghost") if payload is None else super().of(payload)


PullAuthor = Annotated[Account, BeforeValidator(lambda user: user if isinstance(user, Account) else Account.of(user))]

PER_PAGE = 100
"""GitHub's largest page size."""
MAX_LISTED = 1000
"""The most items of a list that we read."""

ACTIONS_BOT = Account(id=41898282, login="github-actions[bot]", is_bot=True)
"""The account of a workflow's own token."""


class _PullTimes(FromGitHub):
    created_at: Time
    updated_at: Time
    pushed_at: Time | None = Field(default=None, validation_alias=AliasPath("head", "repo", "pushed_at"))


class PullRequest(FromGitHub):
    """A pull request.

    `updated_at` changes with every activity, such as a comment or a label.  `head_at` is the last push to the head's
    repository, so the head was pushed at or before it.  For a fork, only its author's pushes count.  For a branch of
    the competition's own repository, every merge counts; a deleted fork has no time of a push.  In both cases `head_at`
    may be as late as `updated_at`.

    `head_ref` is a branch of the repository `head_repository`, by numeric id: None if that was deleted.
    """

    number: int
    author: PullAuthor = Field(default=None, validation_alias="user", validate_default=True)
    head_sha: Sha = Field(validation_alias=AliasPath("head", "sha"))
    base_ref: str = Field(validation_alias=AliasPath("base", "ref"))
    head_ref: str = Field(default="", validation_alias=AliasPath("head", "ref"))
    head_repository: int | None = Field(default=None, validation_alias=AliasPath("head", "repo", "id"))
    base_repository: int | None = Field(default=None, validation_alias=AliasPath("base", "repo", "id"))
    is_draft: OrFalse = Field(default=False, validation_alias="draft")
    is_open: Annotated[bool, BeforeValidator(lambda state: state == "open" if isinstance(state, str) else state)] = (
        Field(validation_alias="state")
    )
    # A list of pull requests has no `merged`.
    merged: Annotated[bool, BeforeValidator(lambda at: at not in (None, False))] = Field(validation_alias="merged_at")
    body: OrEmpty = Field(default="", repr=False)
    updated_at: Time
    head_at: Time

    @property
    def is_of_repository(self) -> bool:
        """Whether the head is a branch of the repository itself, not of a fork."""
        return self.head_repository is not None and self.head_repository == self.base_repository and bool(self.head_ref)

    @classmethod
    def of(cls, payload: Any) -> Self:
        times = _PullTimes.of(payload)
        head_at = min(times.updated_at, max(times.created_at, times.pushed_at or times.updated_at))
        return super().of(payload | {"head_at": head_at})


class Push(FromGitHub):
    """A change of a branch; `kind` is GitHub's: push, force_push, branch_creation, branch_deletion, pr_merge."""

    actor: PullAuthor = Field(default=None, validate_default=True)
    before: Sha
    after: Sha
    kind: str = Field(validation_alias="activity_type")
    at: Time = Field(validation_alias="timestamp")

    @property
    def is_plain(self) -> bool:
        return self.kind in ("push", "branch_creation")


class ChangedFile(FromGitHub):
    """A changed file; `status` is GitHub's: added, modified, removed, renamed, copied, changed or unchanged."""

    path: str = Field(validation_alias="filename")
    status: str
    previous_path: str | None = Field(default=None, validation_alias="previous_filename")


@dataclass(frozen=True, kw_only=True)
class BlobInfo:
    """A file in a tree.  `mode` is git's: 100644 plain, 100755 executable, 120000 a symbolic link.

    `size` is in bytes; for a file that is too large to fetch, it is a lower bound.
    """

    sha: str
    mode: str
    size: int

    @property
    def is_plain(self) -> bool:
        return self.mode == "100644"


class Comment(FromGitHub):
    id: int
    author: PullAuthor = Field(default=None, validation_alias="user", validate_default=True)
    body: OrEmpty = ""
    created_at: Time
    updated_at: Time


class WorkflowRun(FromGitHub):
    """A workflow run; `title` comes from the workflow's `run-name`, `conclusion` is set once it is `completed`."""

    id: int
    title: str = Field(validation_alias="display_title")
    event: str
    status: str
    conclusion: str | None = None
    created_at: Time

    @property
    def is_done(self) -> bool:
        return self.status == "completed"


class Job(FromGitHub):
    """A job of a run; its times come from GitHub's clock, not the runner's."""

    name: str
    started_at: Time | None = None
    completed_at: Time | None = None
    runner: OrEmpty = Field(default="", validation_alias="runner_name")


class Artifact(FromGitHub):
    """An artifact; `digest` is GitHub's SHA-256 of the zip."""

    id: int
    name: str
    size: int = Field(validation_alias="size_in_bytes")
    digest: Annotated[str | None, AfterValidator(lambda said: (said or "").removeprefix("sha256:") or None)] = None
    is_expired: bool = Field(validation_alias="expired")


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
    if not re.fullmatch("[0-9a-f]{40}", sha):
        raise _wrong(place)
    return sha


def items(payload: object, *place: str) -> Iterator[object]:
    """The items of a list in GitHub's JSON."""
    yield from require(payload, list, *place)


def _wrong(place: Sequence[str | int]) -> GitHubError:
    where = ".".join(map(str, place)) or "it"
    return GitHubError(f"GitHub's answer cannot be read: '{where}' is missing or malformed; try again")
