"""The reconciler's possible steps, as data; `scripts.bot.reconcile.act` carries them out."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from scripts.github.pulls import PullRequest, WorkflowRun
from scripts.ledger.request import Ending, EndState, Request


@dataclass(frozen=True, kw_only=True)
class Start:
    """An open request without a run."""

    request: Request


@dataclass(frozen=True, kw_only=True)
class Stop:
    """A run of a request that has ended: the run that ended the request failed to stop it."""

    request: Request
    run: WorkflowRun


@dataclass(frozen=True, kw_only=True)
class Deliver:
    """A run has ended, but its result was not delivered.  `run` is None if it is not among the runs that were read."""

    request: Request
    run: WorkflowRun | None


@dataclass(frozen=True, kw_only=True)
class End:
    """A request that is no longer wanted; `runs` are those that still work on it."""

    request: Request
    state: EndState
    note: str
    runs: tuple[WorkflowRun, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Tell:
    """A request that the comment must show; `ending` is None while it is open."""

    request: Request
    ending: Ending | None


@dataclass(frozen=True, kw_only=True)
class Rematch:
    """A new request: judge a row's file again, against the current champion."""

    request: Request


@dataclass(frozen=True, kw_only=True)
class AskForJudging:
    """A pull request whose event was lost; `happened_at` counts for the deadline."""

    pull: PullRequest
    happened_at: datetime


@dataclass(frozen=True, kw_only=True)
class MergePull:
    request: Request


@dataclass(frozen=True, kw_only=True)
class Close:
    pull: PullRequest


@dataclass(frozen=True, kw_only=True)
class Drop:
    """A second comment of ours: two runs each wrote the first."""

    number: int
    comment_id: int


@dataclass(frozen=True, kw_only=True)
class Publish:
    pass


Step = Start | Stop | Deliver | End | Tell | Rematch | AskForJudging | MergePull | Close | Drop | Publish


def name_of(step: Step) -> str:
    """The request or pull request of a step, for the log."""
    match step:
        case Close(pull=pull) | AskForJudging(pull=pull):
            return f"#{pull.number}"
        case Drop(number=number):
            return f"#{number}"
        case Publish():
            return "publish"
    return step.request.id
