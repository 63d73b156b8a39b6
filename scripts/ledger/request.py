"""What was asked for, and how it ended: small JSON files in the ledger, each written once.

    Request   ── asked ──▶  open  ── Ending ──▶  judged | refused | superseded | cancelled | failed
                                                                        │
                                               Spent: a machine was at work on it already

Nothing here is ever changed: an open request is one without an ending.  A request's id follows from what was
asked, so that an event that arrives twice, or that the reconciler finds again, makes the same fact.

History of the formats
    1   2026-11   first version
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    Field,
    PositiveInt,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from harness.records.fields import Digest, Line, Login, Mode, Moment, Name, Sha
from harness.records.verdict import Verdict
from scripts.github.pulls import ACTIONS_BOT
from scripts.ledger.facts import Fact

MAX_GPU_NAME = 24
"""Characters; so that a request's id fits into 64 whatever the numbers in it."""

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
"""The reason of what is asked for again after a failure of ours."""


class Request(Fact):
    """That a judging was asked for: by whom, of what, when."""

    format: Literal["pullrank-request"] = "pullrank-request"
    version: Literal[1] = 1
    id: Name
    user_id: PositiveInt = Field(description="the author's, whom the judging counts for")
    login: Login
    pull_request: PositiveInt
    head_sha: Sha
    blob_sha: Sha
    task: Name
    gpu: Name
    mode: Mode
    digest: Digest | None = Field(default=None, description="SHA-256 of the file, where it was read")
    asked_at: Moment
    first_asked_at: Moment | None = Field(
        default=None,
        description="when what asks for it happened, or of a new attempt after a failure of ours, the first one's; "
        "missing where that is `asked_at`",
    )
    asked_by: PositiveInt = Field(description="numeric id of whoever asked: the author, a maintainer, the bot")
    reason: Line = ""

    @property
    def attempt(self) -> int:
        return int(self.id.rpartition("-")[2])

    @property
    def day(self) -> date:
        """The day that it was asked on, in UTC: the name of its folder in the ledger."""
        return self.asked_at.astimezone(UTC).date()

    @property
    def in_time_at(self) -> datetime:
        """When what asks for it happened: a deadline is held against that, and `/cancel` ends nothing that came later.

        Nobody is late for a failure of ours.
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
        """Where the ledger keeps its judgement, if it is a ranked one."""
        name = f"{self.pull_request}-{self.head_sha[:12]}-{self.id}.json"
        return Path("judgements", self.task, self.gpu, self.login, name)

    @property
    def is_ranked(self) -> bool:
        return self.mode is Mode.RANKED

    @property
    def is_retry(self) -> bool:
        return self.reason == RETRY

    @property
    def is_rematch(self) -> bool:
        """Whether the bot has asked by itself: for the duel of a row, whatever has become of its pull request."""
        return self.asked_by == ACTIONS_BOT.id

    @model_serializer(mode="wrap")
    def _as_fields(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without what only new attempts have: files from before there was such a thing are written as they were."""
        fields: dict[str, Any] = handler(self)
        if self.first_asked_at is None:
            del fields["first_asked_at"]
        return fields

    @model_validator(mode="after")
    def _has_the_id_that_follows(self) -> Self:
        match = _ID.fullmatch(self.id)
        if not match or self.id != make_id(self.pull_request, self.head_sha, self.gpu, self.mode, self.attempt):
            raise ValueError("the id does not follow from pull request, head, GPU, mode and attempt")
        return self


class EndState(StrEnum):
    """`judged`: with a verdict.  `refused`: it must not be judged any more; the note says why, in Markdown.

    `failed`: ours (JE, lost runner), costs no quota, is judged again as a new attempt.
    """

    JUDGED = "judged"
    REFUSED = "refused"
    SUPERSEDED = "superseded"
    CANCELLED = "cancelled"
    FAILED = "failed"


WITHDRAWN = (EndState.SUPERSEDED, EndState.CANCELLED)
"""Ended because nobody wants it any more, whatever a machine may still be doing."""
CANCEL = "/cancel"
"""How the note of an ending begins that somebody has asked for."""


class Ending(Fact):
    """How a request ended."""

    format: Literal["pullrank-ending"] = "pullrank-ending"
    version: Literal[1] = 1
    request: Name
    state: EndState
    verdict: Verdict | None = None
    seconds: Seconds = Field(
        default=0.0, description="wall time that the judge's machine spent on it; counts for the quota"
    )
    at: Moment
    note: Line = ""

    @property
    def is_taken_back(self) -> bool:
        """Whether it was ended by what had become of its pull request or its author, and by nobody's `/cancel`."""
        return self.state in WITHDRAWN and not self.note.startswith(CANCEL)

    @model_validator(mode="after")
    def _has_a_verdict_exactly_if_judged(self) -> Self:
        judged = self.verdict not in (None, Verdict.JUDGING_ERROR)
        if judged != (self.state is EndState.JUDGED):
            raise ValueError("a request has a verdict exactly if it was judged; a judging error is 'failed'")
        return self


class Spent(Fact):
    """What a machine had spent on a request that was ended before it was judged.  It is known after the ending."""

    format: Literal["pullrank-spent"] = "pullrank-spent"
    version: Literal[1] = 1
    request: Name
    seconds: Seconds = Field(description="wall time of the judge's machine; counts for the quota")
    at: Moment
