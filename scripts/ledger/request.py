"""Requests for a judging, and how they ended: small JSON files in the ledger, each written once.

    Request   ── asked ──▶  open  ── Ending ──▶  judged | refused | superseded | cancelled | failed
                                                                        │
                                                   Spent: machine time spent before the ending

These files never change: an open request is one without an ending.  A request's id is derived from its fields, so an
event that arrives twice, or that the reconciler finds again, gives the same fact.

History of the formats
    1   2026-11   first version
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, PositiveInt, model_validator

from harness.records.counters import LaunchFilter
from harness.records.fields import Digest, Login, Mode, Moment, RecordName, Sha, ShortLine, omitted
from harness.records.verdict import Verdict
from scripts.github.pulls import ACTIONS_BOT
from scripts.ledger.facts import Fact

MAX_GPU_NAME = 24
"""In characters; keeps every request's id within 64."""

LONGEST_JOB_S = 86_400.0

Seconds = Annotated[float, Field(ge=0, le=LONGEST_JOB_S)]

_ID = re.compile(
    r"(?P<pull_request>[1-9][0-9]{0,9})-(?P<head>[0-9a-f]{12})-(?P<gpu>[A-Za-z0-9][A-Za-z0-9_.-]{0,23})"
    rf"-(?P<mode>{'|'.join(Mode)})-(?P<attempt>[1-9][0-9]{{0,3}})"
)


def make_id(pull_request: int, head_sha: str, gpu: str, mode: Mode, attempt: int = 1) -> str:
    """`12-0a1b2c3d4e5f-H100-ranked-1`; `attempt` counts the judgings of one head on one board in one mode."""
    return f"{pull_request}-{head_sha[:12]}-{gpu}-{mode}-{attempt}"


RETRY = "the judging before it failed"
"""The reason of a new attempt after a failure of ours."""


class Request(Fact):
    """A request for a judging: by whom, of what, when."""

    format: Literal["pullrank-request"] = "pullrank-request"
    version: Literal[1] = 1
    id: RecordName
    user_id: PositiveInt = Field(description="numeric id of the author, whose quota it uses")
    login: Login
    pull_request: PositiveInt
    head_sha: Sha
    blob_sha: Sha
    task: RecordName
    gpu: RecordName
    mode: Mode
    case: PositiveInt | None = Field(
        default=None, exclude_if=omitted, description="number of the only benchmark to profile, from 1; missing for all"
    )
    launches: LaunchFilter | None = Field(
        default=None,
        exclude_if=omitted,
        description="those of a call that NVIDIA's ncu profiles; missing for the first ones",
    )
    digest: Digest | None = Field(default=None, description="SHA-256 of the file, if it was read")
    fingerprint: Digest | None = Field(
        default=None,
        exclude_if=omitted,
        description="of the file without its names, comments and layout; missing if it is nobody's own",
    )
    asked_at: Moment
    first_asked_at: Moment | None = Field(
        default=None,
        exclude_if=omitted,
        description="time of the event that caused it; for a new attempt after a failure of ours, of the first one's; "
        "missing if that is `asked_at`",
    )
    asked_by: PositiveInt = Field(description="numeric id of the account that asked: the author, a maintainer, the bot")
    reason: ShortLine = ""

    @property
    def attempt(self) -> int:
        return int(self.id.rpartition("-")[2])

    @property
    def series(self) -> tuple[int, str, str, Mode]:
        """What all attempts at the same judging have in common: one head on one board in one mode."""
        return self.pull_request, self.head_sha, self.gpu, self.mode

    def again(self, **changes: Any) -> Self:
        """The next attempt, with some fields changed."""
        return self.model_copy(update={"id": make_id(*self.series, self.attempt + 1), **changes})

    @property
    def day(self) -> date:
        """The day of the request, in UTC: the name of its folder in the ledger."""
        return self.asked_at.astimezone(UTC).date()

    @property
    def in_time_at(self) -> datetime:
        """The time of the event that caused it, for deadlines; `/cancel` does not affect later requests.

        A new attempt after a failure of ours keeps the first attempt's time, so that it misses no deadline.
        """
        return self.first_asked_at or self.asked_at

    @property
    def place(self) -> Path:
        return Path("requests", self.day.isoformat(), f"{self.user_id}-{self.id}.json")

    @property
    def place_of_ending(self) -> Path:
        return self.place.with_suffix(".ended.json")

    @property
    def place_of_cost(self) -> Path:
        return self.place.with_suffix(".spent.json")

    @property
    def place_of_judgement(self) -> Path:
        """The judgement's file in the ledger, if the request is ranked."""
        name = f"{self.pull_request}-{self.head_sha[:12]}-{self.id}.json"
        return Path("judgements", self.task, self.gpu, self.login, name)

    @property
    def is_ranked(self) -> bool:
        return self.mode is Mode.RANKED

    @property
    def is_retry(self) -> bool:
        return self.reason == RETRY

    @property
    def is_by_command(self) -> bool:
        """Whether somebody asked for it in a comment."""
        return self.reason.startswith("/")

    @property
    def is_rematch(self) -> bool:
        """Whether the bot asked for it, for a row's duel or provisional time, whatever the pull request's state."""
        return self.asked_by == ACTIONS_BOT.id

    @model_validator(mode="after")
    def _has_the_id_that_follows(self) -> Self:
        if not _ID.fullmatch(self.id) or self.id != make_id(*self.series, self.attempt):
            raise ValueError("the id does not match pull request, head, GPU, mode and attempt")
        if (self.case or self.launches) and self.mode is not Mode.PROFILE:
            raise ValueError("only a profile can be of one case or of some launches")
        return self


class EndState(StrEnum):
    """How a request ended.

    `judged`: with a verdict.  `refused`: it must not be judged; the note says why, in Markdown.  `failed`: a failure of
    ours (JE, lost runner); it uses no quota, and a new attempt follows.
    """

    JUDGED = "judged"
    REFUSED = "refused"
    SUPERSEDED = "superseded"
    CANCELLED = "cancelled"
    FAILED = "failed"


WITHDRAWN = (EndState.SUPERSEDED, EndState.CANCELLED)
"""It was withdrawn, even if a machine is still judging."""
BY_COMMAND = "/"
"""The start of an ending's note if somebody asked for it: `/cancel`, `/withdraw`, or the removal of the file."""


class Ending(Fact):
    """How a request ended."""

    format: Literal["pullrank-ending"] = "pullrank-ending"
    version: Literal[1] = 1
    request: RecordName
    state: EndState
    verdict: Verdict | None = None
    seconds: Seconds = Field(default=0.0, description="wall time of the judge's machine; counts towards the quota")
    at: Moment
    note: ShortLine = ""

    @property
    def is_taken_back(self) -> bool:
        """Whether a change of the pull request or its author ended it, not a command."""
        return self.state in WITHDRAWN and not self.note.startswith(BY_COMMAND)

    @model_validator(mode="after")
    def _has_a_verdict_exactly_if_judged(self) -> Self:
        judged = self.verdict not in (None, Verdict.JUDGING_ERROR)
        if judged != (self.state is EndState.JUDGED):
            raise ValueError("a request must have a verdict if and only if it was judged; a judging error is 'failed'")
        return self


class Spent(Fact):
    """Machine time spent on a request that ended before it was judged; added after the ending."""

    format: Literal["pullrank-spent"] = "pullrank-spent"
    version: Literal[1] = 1
    request: RecordName
    seconds: Seconds = Field(description="wall time of the judge's machine; counts towards the quota")
    at: Moment
