"""What the reconciler may have to do: each step is a fact, done in `scripts.bot.reconcile.reconcile`."""

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
    """A run is at work on what nobody wants any more: whoever ended it has not come to stop it."""

    request: Request
    run: WorkflowRun


@dataclass(frozen=True, kw_only=True)
class Deliver:
    """A run has ended, and what came of it stands nowhere.  `run` is missing where it is none of those in sight."""

    request: Request
    run: WorkflowRun | None


@dataclass(frozen=True, kw_only=True)
class End:
    """A request that nobody wants any more; `runs` are at work on it."""

    request: Request
    state: EndState
    note: str
    runs: tuple[WorkflowRun, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Tell:
    """`ending` is missing of what waits."""

    request: Request
    ending: Ending | None


@dataclass(frozen=True, kw_only=True)
class Rematch:
    """`request` is new: a row's file once more, beside who is first now."""

    request: Request


@dataclass(frozen=True, kw_only=True)
class AskForJudging:
    """A pull request whose head nobody has asked to judge; `happened_at` is what counts for a deadline."""

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
    """A comment of ours that stands beside an older one: two writers have each written the first."""

    number: int
    comment_id: int


@dataclass(frozen=True, kw_only=True)
class Publish:
    pass


Step = Start | Stop | Deliver | End | Tell | Rematch | AskForJudging | MergePull | Close | Drop | Publish
