"""`pullrank ci reconcile`: make the world match the ledger.  Events are hints, and any of our steps may have failed.

    ledger, open pull requests, runs, comments ─▶ Facts ─▶ plan (pure, scripts/plan.py) ─▶ each step, a line for each

Each step is safe to do twice, and by two at once; one that fails does not hold up the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from harness.errors import PullRankError
from scripts import deliver, evaluation, intake
from scripts.checks import CheckState
from scripts.comment import MARKER, PullComment, ended_section, queued_section, read_comment
from scripts.events import PullAction, PullEvent
from scripts.merging import merge
from scripts.plan import (
    LOOK_BACK,
    PATIENCE,
    Close,
    Deliver,
    End,
    Facts,
    Merge,
    Offer,
    Publish,
    Start,
    Step,
    Tell,
    plan,
)
from scripts.pulls import WorkflowRun
from scripts.request import Ending, EndState, Request
from scripts.settings import Merge as MergeSetting
from scripts.tables import Tables

if TYPE_CHECKING:
    from scripts.gh import GitHub

LIVE = ("queued", "in_progress")

_CLOSED = "<!-- pullrank closed -->"
_WHY_CLOSED = f"""{_CLOSED}
This entry is valid and improves no row of its author, and nothing has happened here for two weeks, so it is closed.
Its results stay in the ledger. Push a faster file and reopen it, or open a new pull request.
"""


@dataclass(frozen=True, kw_only=True)
class Doors:
    """Those of intake and of the delivery; they talk to the same GitHub."""

    intake: intake.Doors
    deliver: deliver.Doors

    @property
    def github(self) -> GitHub:
        return self.deliver.github


def run(doors: Doors, now: datetime | None = None) -> Iterator[str]:
    """Do what is to be done, a line for each step; one that fails does not hold up the others."""
    at = (now or datetime.now(UTC)).replace(microsecond=0)
    for step in plan(read(doors, at)):
        try:
            yield do(step, doors, at)
        except PullRankError as error:
            yield f"{_name(step)}: not done: {error}"


def read(doors: Doors, now: datetime) -> Facts:
    """The facts, with half a dozen requests."""
    github, settings = doors.github, doors.deliver.settings
    with doors.deliver.open_ledger(deliver.FOLDERS) as branch:
        # The requests first: what ends while we look is seen as open, and then found ended by whoever acts on it.
        statuses = branch.ledger.requests().facts
        pulls = github.open_pulls()
        is_open = {(pull.number, pull.head_sha) for pull in pulls}
        of_heads = [one for one in statuses if (one.request.pull_request, one.request.head_sha) in is_open]
        tables = Tables(branch.ledger, doors.deliver.root)
        places = {one.request.id: place for one in of_heads if (place := tables.place(one))}
    return Facts(
        now=now,
        statuses=statuses,
        pulls=pulls,
        runs=_runs(github),
        comments=_comments(github, now),
        places=places,
        published_at=max((run.created_at for run in github.runs(deliver.PUBLISH_WORKFLOW)), default=None),
        default_branch=doors.deliver.default_branch,
        merges=settings.merge is MergeSetting.AUTO,
    )


def _runs(github: GitHub) -> tuple[WorkflowRun, ...]:
    """The newest, and all that wait or run, however old: a machine may be away for days."""
    lists = [github.runs(evaluation.WORKFLOW), *(github.runs(evaluation.WORKFLOW, status=status) for status in LIVE)]
    return tuple({run.id: run for runs in lists for run in runs}.values())


def _comments(github: GitHub, now: datetime) -> dict[int, PullComment]:
    found: dict[int, PullComment] = {}
    for number, comment in github.recent_comments(now - LOOK_BACK - PATIENCE):
        if comment.author.id == github.me.id and MARKER in comment.body:
            found.setdefault(number, read_comment(comment.body))
    return found


def do(step: Step, doors: Doors, now: datetime) -> str:
    """Do one step; says in a line what was done."""
    github, branch = doors.github, doors.deliver.default_branch
    match step:
        case Start(request=request):
            evaluation.start(github, request, branch)
            return f"{request.id}: started once more"
        case Deliver(request=request, run=found):
            return deliver.run(request.id, found.id, found.conclusion or "unknown", doors.deliver, now)
        case End(request=request):
            return _end(step, doors, now)
        case Tell(request=request, ending=ending):
            _tell(request, ending, github)
            return f"{request.id}: the comment says how it stands"
        case Offer(pull=pull):
            event = PullEvent(action=PullAction.PUSHED, pull=pull, default_branch=branch)
            return intake.follow(event, doors.intake, now)
        case Merge(request=request):
            return f"{request.id}: {merge(request, doors.deliver.settings, github, branch)}"
        case Close(pull=pull):
            github.upsert_comment(pull.number, _CLOSED, _WHY_CLOSED)
            github.close_pull(pull.number)
            return f"#{pull.number}: closed, it improves nothing"
        case Publish():
            github.dispatch(deliver.PUBLISH_WORKFLOW, {}, branch)
            return "the site is built anew"


def _end(step: End, doors: Doors, now: datetime) -> str:
    ending = Ending(request=step.request.id, state=step.state, at=now, note=step.note)
    with doors.deliver.open_ledger(("requests",)) as branch:
        if branch.ledger.append_ending(step.request, ending):
            branch.commit(f"{step.request.id}: {step.state}")
    _tell(step.request, ending, doors.github)
    return f"{step.request.id}: {step.state}, {step.note}"


def _tell(request: Request, ending: Ending | None, github: GitHub) -> None:
    section = ended_section(request, ending) if ending else queued_section(request)
    is_cancelled = ending and ending.state in (EndState.CANCELLED, EndState.SUPERSEDED)
    state = CheckState.CANCELLED if is_cancelled else CheckState.NEUTRAL if ending else CheckState.QUEUED
    deliver.show(request, section, evaluation.check_of(request, state, section.facts.summary), github)


def _name(step: Step) -> str:
    match step:
        case Start(request=request) | Deliver(request=request) | End(request=request):
            return request.id
        case Tell(request=request) | Merge(request=request):
            return request.id
        case Offer(pull=pull) | Close(pull=pull):
            return f"#{pull.number}"
    return "publish"
