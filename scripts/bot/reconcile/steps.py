"""The steps of a plan, as data: `plan` chooses them, and `reconcile` carries them out."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from harness.records.judgement import Judgement
from scripts.github.pulls import PullRequest, WorkflowRun
from scripts.ledger.request import Ending, EndState, Request


@dataclass(frozen=True, kw_only=True)
class _OfRequest:
    request: Request

    @property
    def name(self) -> str:
        return self.request.id


@dataclass(frozen=True, kw_only=True)
class _OfPull:
    pull: PullRequest

    @property
    def name(self) -> str:
        return f"#{self.pull.number}"


class StartRun(_OfRequest):
    """An open request without a run."""


@dataclass(frozen=True, kw_only=True)
class StopRun(_OfRequest):
    """A run of a request that has ended: the run that ended the request failed to stop it."""

    run: WorkflowRun


@dataclass(frozen=True, kw_only=True)
class DeliverResult(_OfRequest):
    """A run has ended, but its result was not delivered.  `run` is None if it is not among the runs that were read."""

    run: WorkflowRun | None


@dataclass(frozen=True, kw_only=True)
class EndRequest(_OfRequest):
    """A request that is no longer wanted; `runs` are those that still work on it."""

    state: EndState
    note: str
    runs: tuple[WorkflowRun, ...] = ()


@dataclass(frozen=True, kw_only=True)
class UpdateComment(_OfRequest):
    """A request that the comment must show; `ending` is None while it is open."""

    ending: Ending | None


class Rematch(_OfRequest):
    """A new request: judge a row's file again, against the current champion, or because its time is provisional."""


@dataclass(frozen=True, kw_only=True)
class HoldRow:
    """All judgements of a first row that needs a review, and the request that led to the newest of them."""

    judgements: tuple[Judgement, ...]
    reason: str
    request_id: str

    @property
    def name(self) -> str:
        return self.request_id


class MergePull(_OfRequest):
    """Merge the pull request of a judged request."""


class ClosePull(_OfPull):
    """Close a pull request that improves nothing."""


@dataclass(frozen=True, kw_only=True)
class AskForJudging(_OfPull):
    """A pull request whose event was lost; `happened_at` counts for the deadline."""

    happened_at: datetime


@dataclass(frozen=True, kw_only=True)
class DeleteComment:
    """A second comment of ours: two runs each wrote the first."""

    number: int
    comment_id: int

    @property
    def name(self) -> str:
        return f"#{self.number}"


@dataclass(frozen=True, kw_only=True)
class PublishSite:
    name = "publish"


Step = (
    StartRun
    | StopRun
    | DeliverResult
    | EndRequest
    | UpdateComment
    | HoldRow
    | Rematch
    | AskForJudging
    | MergePull
    | ClosePull
    | DeleteComment
    | PublishSite
)
