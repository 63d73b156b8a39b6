"""`pullrank ci reconcile`: make GitHub match the ledger.  Events are only hints, and any earlier step may have failed.

    ledger, open pull requests, runs, comments ─▶ RepositoryState ─▶ plan (pure, plan.py) ─▶ steps, a log line each

Each step is safe to do twice, and by two runs at once; a failed step does not stop the others.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from harness.records.errors import PullRankError
from scripts.bot.comment.comment_text import MARKER, PullComment, read_comment
from scripts.bot.comment.sections import ended_section, queued_section
from scripts.bot.comment.write_comment import tell
from scripts.bot.evaluate import workflow_runs
from scripts.bot.intake import intake
from scripts.bot.intake.events import PullAction, PullEvent
from scripts.bot.reconcile.duels_due import find_due_rows
from scripts.bot.reconcile.plan import PATIENCE, RepositoryState, look_back, plan
from scripts.bot.reconcile.steps import (
    AskForJudging,
    Close,
    Deliver,
    Drop,
    End,
    MergePull,
    Publish,
    Rematch,
    Start,
    Step,
    Stop,
    Tell,
)
from scripts.bot.report import report
from scripts.bot.report.merging import MERGED
from scripts.bot.report.places import Tables
from scripts.competition.settings import Merge as MergeSetting
from scripts.github.checks import CheckState
from scripts.github.pulls import MAX_LISTED, PER_PAGE, Comment, GitHubError, PullRequest, WorkflowRun
from scripts.github.start_workflow import NotStarted, start_workflow, why_unheard
from scripts.ledger.ledger import RequestStatus
from scripts.ledger.moderation import Moderated
from scripts.ledger.names import (
    boards,
    boards_in,
    either,
    endings_since,
    open_requests,
    requests_of,
    requests_of_pulls,
    these,
    under,
)
from scripts.ledger.request import WITHDRAWN, Ending, Request

if TYPE_CHECKING:
    from scripts.bot.intake.gather import IntakeContext
    from scripts.bot.report.report import ReportContext
    from scripts.github.gh import GitHub
    from scripts.ledger.branch import LedgerBranch

MAX_ASKED = 20
"""Pull requests to look up one by one, per run."""
WORKFLOW = "reconcile.yml"
LONGEST_WAIT = timedelta(days=14)
"""From request to end: GitHub ends jobs that wait for a day."""

_CLOSED = "<!-- pullrank closed -->"
_WHY_CLOSED = f"""{_CLOSED}
This submission is accepted but does not improve its author's row, and nothing has happened here for two weeks, so the
bot closes this pull request. The results stay in the ledger. Push a faster file and reopen it, or open a new one.
"""


@dataclass(frozen=True, kw_only=True)
class ReconcileContext:
    """The contexts of intake and report; they share one GitHub client."""

    intake: IntakeContext
    report: ReportContext

    @property
    def github(self) -> GitHub:
        return self.report.github


def run(context: ReconcileContext, now: datetime | None = None) -> Iterator[str]:
    """Carry out all steps, with a log line for each; a failed step does not stop the others.

    Raises:
        NotStarted: after all other steps, if the repository's settings keep it from starting workflows.
    """
    at = (now or datetime.now(UTC)).replace(microsecond=0)
    facts = read(context, at)
    yield from (f"left out: {fault}" for fault in facts.faults)
    steps, trouble = list(plan(facts)), None
    offers = sum(isinstance(step, AskForJudging) for step in steps)  # the last ones
    for step in steps:
        if trouble and isinstance(step, Start):
            continue
        try:
            yield (said := do(step, context, at))
            if isinstance(step, MergePull) and said == f"{step.request.id}: {MERGED}" and Publish() not in steps:
                steps.insert(len(steps) - offers, Publish())  # A merged row is no longer provisional.
        except NotStarted as error:
            trouble = error
        except PullRankError as error:
            yield f"{_name(step)}: failed: {error}"
    if offers and (reason := _why_unheard(context.github)):
        yield reason
    if trouble:
        raise trouble


def read(context: ReconcileContext, now: datetime) -> RepositoryState:
    """Read the state, with eight API requests, or a few more in a busy repository."""
    github, settings = context.github, context.report.settings
    last_at = max((run.created_at for run in github.runs(WORKFLOW, status="success")), default=None)
    since = look_back(now, last_at)
    ended = endings_since((since - LONGEST_WAIT).date())
    with context.report.open_ledger(either(open_requests, ended, under("moderation"))) as branch:
        # The ledger first: a request that ends meanwhile looks open here, and its step then finds it ended.
        ledger, pulls = branch.ledger, github.open_pulls()
        recent = these(ledger.ended_since(since))
        branch.check_out(either(recent, requests_of_pulls({pull.number for pull in pulls})))
        statuses = ledger.requests().facts
        is_open = {(pull.number, pull.head_sha) for pull in pulls}
        waiting = (one.request for one in statuses if one.is_open and not one.request.is_rematch)
        asked_in = {request.pull_request for request in waiting if request.asked_at <= now - PATIENCE}
        closed = tuple(_closed(github, asked_in - {pull.number for pull in pulls}))
        decisions = ledger.moderations()
        moderated, decided_at = Moderated.after(decisions), max((one.at for one in decisions), default=None)
        of_heads = [one for one in statuses if (one.request.pull_request, one.request.head_sha) in is_open]
        lively = {(task, gpu) for task, gpu in _lively(branch, statuses, since) if gpu in settings.gpus}
        branch.check_out(boards(lively | {(one.request.task, one.request.gpu) for one in of_heads}))
        tables = Tables(ledger, context.report.root)
        places = {one.request.id: place for one in of_heads if (place := tables.place(one))}
        rows = tuple(find_due_rows(table for name in sorted(lively) if (table := tables.find(*name))))
        if rows:
            of_rows = {row.pull_request for row in rows}
            branch.check_out(requests_of_pulls(of_rows))
            statuses = tuple(dict.fromkeys([*statuses, *ledger.requests(pulls=of_rows)]))
    comments, spare, comments_since = _comments(github, since - PATIENCE)
    return RepositoryState(
        now=now,
        default_branch=context.report.default_branch,
        statuses=statuses,
        pulls=pulls,
        closed=closed,
        runs=_runs(github, statuses),
        comments=comments,
        comments_since=comments_since,
        spare=spare,
        places=places,
        duels=tuple(due for row in rows if (due := row.find_duel(statuses))),
        published_at=max((run.created_at for run in _published(github)), default=None),
        decided_at=decided_at,
        last_at=last_at,
        merges=settings.merge is MergeSetting.AUTO,
        bans=settings.bans,
        moderated=moderated,
        faults=decisions.faults,
    )


def _lively(branch: LedgerBranch, statuses: Iterable[RequestStatus], since: datetime) -> set[tuple[str, str]]:
    """The boards whose due duels may have changed: reading all boards would take too long."""
    if any(decision.at >= since for decision in branch.ledger.moderations()):
        return boards_in(branch.names)
    return {
        (one.request.task, one.request.gpu)
        for one in statuses
        if one.request.is_ranked and (one.ending.at >= since if one.ending else one.request.is_rematch)
    }


def _closed(github: GitHub, numbers: set[int]) -> Iterator[PullRequest]:
    """Pull requests that are no longer open, as far as GitHub shows them; looks up at most `MAX_ASKED` one by one."""
    if not numbers:
        return
    newest: dict[int, PullRequest] = {}
    with contextlib.suppress(GitHubError):
        newest = {pull.number: pull for pull in github.closed_pulls() if pull.number in numbers}
    yield from newest.values()
    for number in sorted(numbers - newest.keys())[:MAX_ASKED]:
        # GitHub hides the pull requests of flagged accounts.
        with contextlib.suppress(GitHubError):
            yield github.get_pull(number)


def _runs(github: GitHub, statuses: Iterable[RequestStatus]) -> tuple[WorkflowRun, ...]:
    """All queued and running ones, which may wait for days; and the newest, back to where one may have been missed."""
    found = {run.id: run for run in workflow_runs.live_runs(github)}
    titles = {run.title for run in found.values()}
    waiting = (one.request for one in statuses if one.is_open)
    missed = [request for request in waiting if workflow_runs.run_title(request.id) not in titles]
    since = min((request.asked_at for request in missed), default=datetime.max.replace(tzinfo=UTC))
    for count, run in enumerate(github.all_runs(workflow_runs.WORKFLOW), start=1):
        found[run.id] = run
        if count >= PER_PAGE and run.created_at < since:
            break
    return tuple(found.values())


def _published(github: GitHub) -> Iterator[WorkflowRun]:
    runs = github.runs(report.PUBLISH_WORKFLOW)
    return (run for run in runs if run.conclusion in (None, "", "success"))


def _comments(github: GitHub, since: datetime) -> tuple[dict[int, PullComment], dict[int, int], datetime | None]:
    """Our comments by pull request; the pull requests of superfluous second ones, by comment id; and since when.

    Since when: usually None, for all of them; otherwise there were too many, and older ones are missing.
    """
    ours: dict[int, list[Comment]] = defaultdict(list)
    recent = list(github.recent_comments(since))
    for number, comment in recent:
        # Our replies may quote our marker, too.
        if comment.author.id == github.me.id and comment.body.startswith(MARKER):
            ours[number].append(comment)
    oldest = {number: min(found, key=lambda one: one.id) for number, found in ours.items()}
    spare = {one.id: number for number, found in ours.items() for one in found if one is not oldest[number]}
    is_cut = len(recent) >= MAX_LISTED
    comments = {number: read_comment(comment.body) for number, comment in oldest.items()}
    return comments, spare, recent[-1][1].updated_at if is_cut else None


def _why_unheard(github: GitHub) -> str:
    """What to fix in the repository, if no event ever starts intake."""
    try:
        return why_unheard([run.event for run in github.runs(intake.WORKFLOW)])
    except GitHubError:
        return ""


def do(step: Step, context: ReconcileContext, now: datetime) -> str:
    """Do one step; returns a log line."""
    github, branch = context.github, context.report.default_branch
    match step:
        case Start(request=request):
            workflow_runs.start(github, request, branch)
            return f"{request.id}: started again"
        case Stop(request=request, run=found):
            github.cancel_run(found.id)
            return f"{request.id}: stopped its run, which is no longer wanted"
        case Deliver(request=request, run=found):
            run_id, result = (found.id, found.conclusion) if found else (None, None)
            return report.run(request.id, run_id, result or "unknown", context.report, now)
        case End(request=request):
            return _end(step, context, now)
        case Tell(request=request, ending=ending):
            _tell(request, ending, github)
            return f"{request.id}: updated the comment"
        case Rematch(request=request):
            return _ask(request, context)
        case AskForJudging(pull=pull, happened_at=happened_at):
            event = PullEvent(action=PullAction.PUSHED, pull=pull, default_branch=branch, happened_at=happened_at)
            return intake.follow(event, context.intake, now)
        case MergePull(request=request):
            return f"{request.id}: {_merge(request, context.report)}"
        case Close(pull=pull):
            github.upsert_comment(pull.number, _CLOSED, _WHY_CLOSED)
            github.close_pull(pull.number)
            return f"#{pull.number}: closed, because it improves nothing"
        case Drop(number=number, comment_id=comment_id):
            github.ask("DELETE", f"/issues/comments/{comment_id}")
            return f"#{number}: deleted our second comment"
        case Publish():
            start_workflow(github, report.PUBLISH_WORKFLOW, {}, branch)
            return "started to publish the site"


def _ask(request: Request, context: ReconcileContext) -> str:
    """Request a rematch, unless another run already has."""
    with context.report.open_ledger(requests_of(request.user_id)) as branch:
        is_new = branch.ledger.append_request(request)
        if not is_new or request.place not in branch.commit(f"{request.id}: {request.reason}"):
            return f"{request.id}: already requested by another run"
    _tell(request, None, context.github)
    workflow_runs.start(context.github, request, context.report.default_branch)
    return f"{request.id}: requested, {request.reason}"


def _merge(request: Request, context: ReportContext) -> str:
    # Read moderations again: there may be a new ban, and a merge cannot be undone.
    with context.open_ledger(under("moderation")) as branch:
        moderated = Moderated.after(branch.ledger.moderations())
    return report.merge_judged(request, moderated, context)


def _end(step: End, context: ReconcileContext, now: datetime) -> str:
    ending = Ending(request=step.request.id, state=step.state, at=now, note=step.note)
    with context.report.open_ledger(requests_of(step.request.user_id)) as branch:
        is_new = branch.ledger.append_ending(step.request, ending)
        if not is_new or step.request.place_of_ending not in branch.commit(f"{step.request.id}: {step.state}"):
            return f"{step.request.id}: already ended differently"
    for found in step.runs:
        context.github.cancel_run(found.id)
    _tell(step.request, ending, context.github)
    return f"{step.request.id}: {step.state}, {step.note}"


def _tell(request: Request, ending: Ending | None, github: GitHub) -> None:
    section = ended_section(request, ending) if ending else queued_section(request)
    is_cancelled = ending and ending.state in WITHDRAWN
    state = CheckState.CANCELLED if is_cancelled else CheckState.NEUTRAL if ending else CheckState.QUEUED
    tell(request, section, workflow_runs.check_of(request, state, section.facts.summary), github)


def _name(step: Step) -> str:
    match step:
        case Start(request=request) | Stop(request=request) | Deliver(request=request) | End(request=request):
            return request.id
        case Tell(request=request) | MergePull(request=request) | Rematch(request=request):
            return request.id
        case AskForJudging(pull=pull) | Close(pull=pull):
            return f"#{pull.number}"
        case Drop(number=number):
            return f"#{number}"
    return "publish"
