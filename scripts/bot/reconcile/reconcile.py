"""`pullrank ci reconcile`: make GitHub match the ledger.  Events are only hints, and any earlier step may have failed.

    ledger, open pull requests, runs, comments ─▶ gather ─▶ plan (pure) ─▶ steps ─▶ act, a log line for each step

A failed step does not stop the others.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from harness.records.errors import PullRankError
from scripts.bot.comment.pull_record import PullRecord
from scripts.bot.comment.sections import check_without_report
from scripts.bot.comment.write_comment import show_state, update_comment
from scripts.bot.context import PUBLISH_WORKFLOW, BotContext
from scripts.bot.evaluate import workflow_runs
from scripts.bot.intake import intake
from scripts.bot.intake.events import PullAction, PullEvent
from scripts.bot.intake.intake import handle_event
from scripts.bot.reconcile.foreign_pushes import find_foreign_pushes
from scripts.bot.reconcile.gather import gather
from scripts.bot.reconcile.plan import plan
from scripts.bot.reconcile.steps import (
    AskForJudging,
    ClosePull,
    DeleteComment,
    DeliverResult,
    EndRequest,
    HoldRow,
    MergePull,
    PublishSite,
    Rematch,
    StartRun,
    Step,
    StopRun,
    UpdateComment,
)
from scripts.bot.report.merging import MERGED, merge
from scripts.bot.report.places import LedgerBoards, PlaceKind
from scripts.bot.report.report import end
from scripts.bot.report.report import run as deliver
from scripts.bot.report.review import start_review
from scripts.common.text import plain, shorten
from scripts.github.pulls import ACTIONS_BOT, GitHubError
from scripts.github.start_workflow import NotStarted, start_workflow, why_events_are_lost
from scripts.ledger.moderation import Moderated, hold
from scripts.ledger.names import boards, either, requests_of, under
from scripts.ledger.request import Ending, Request

if TYPE_CHECKING:
    from scripts.github.gh import GitHub

LONGEST_S = 300.0
"""Lost events are left to the next run after so much time.  GitHub ends the job after 15 minutes."""


def run(context: BotContext, now: datetime | None = None) -> Iterator[str]:
    """Carry out all steps, with a log line for each; a failed step does not stop the others.

    Raises:
        NotStarted: after all other steps, if the repository's settings keep it from starting workflows.
    """
    at = (now or datetime.now(UTC)).replace(microsecond=0)
    facts = gather(context, at)
    yield from (f"left out: {fault}" for fault in facts.faults)
    steps, trouble = list(plan(facts)), None
    lost = sum(isinstance(step, AskForJudging) for step in steps)  # the last ones
    began, left_out = time.monotonic(), 0
    for step in steps:
        if trouble and isinstance(step, StartRun):
            continue
        if isinstance(step, AskForJudging) and time.monotonic() > began + LONGEST_S:
            left_out += 1
            continue
        try:
            yield (said := act(step, context, at))
            if isinstance(step, MergePull) and said == f"{step.request.id}: {MERGED}" and PublishSite() not in steps:
                steps.insert(len(steps) - lost, PublishSite())  # The site marks rows that are not merged.
        except NotStarted as error:
            trouble = error
        except PullRankError as error:
            yield f"{step.name}: failed: {error}"
        except Exception as error:  # One pull request must not stop the work on all others.
            said = shorten(plain(str(error)), 300)
            yield f"{step.name}: failed: internal error: {type(error).__name__}: {said}; please report it"
    if left_out:
        yield f"{left_out} events are left to the next run, after {LONGEST_S // 60:.0f} minutes of this one"
    if lost and (reason := _why_events_are_lost(context.github)):
        yield reason
    yield from find_foreign_pushes(context, facts.last_at, at)
    if trouble:
        raise trouble


_CLOSED = "<!-- pullrank closed -->"
_WHY_CLOSED = f"""{_CLOSED}
This submission is accepted but does not improve its author's row, and nothing has happened here for two weeks, so the
bot closes this pull request. The results stay in the ledger. Push a faster file and reopen it, or open a new one.
"""


def act(step: Step, context: BotContext, now: datetime) -> str:
    """Do one step; returns a log line."""
    github, branch = context.github, context.default_branch
    match step:
        case StartRun(request=request):
            workflow_runs.start(github, request, branch)
            return f"{request.id}: started again"
        case StopRun(request=request, run=found):
            github.cancel_run(found.id)
            return f"{request.id}: stopped its run, which is no longer wanted"
        case DeliverResult(request=request, run=found):
            run_id, result = (found.id, found.conclusion) if found else (None, None)
            return deliver(request.id, run_id, result or "unknown", context, now)
        case EndRequest(request=request):
            return _end(step, context, now)
        case UpdateComment(request=request, ending=ending):
            return _tell(request, ending, context)
        case HoldRow():
            return f"{_hold(step, context, now)}; {start_review(step.request_id, context)}"
        case Rematch(request=request):
            return _ask(request, context)
        case AskForJudging(pull=pull, happened_at=happened_at):
            event = PullEvent(action=PullAction.PUSHED, pull=pull, default_branch=branch, happened_at=happened_at)
            return handle_event(event, context, now)
        case MergePull(request=request):
            return f"{request.id}: {_merge(request, context)}"
        case ClosePull() | DeleteComment():
            return _tidy(step, github)
        case PublishSite():
            start_workflow(github, PUBLISH_WORKFLOW, {}, branch)
            return "started to publish the site"


def _tidy(step: ClosePull | DeleteComment, github: GitHub) -> str:
    if isinstance(step, DeleteComment):
        github.ask("DELETE", f"/issues/comments/{step.comment_id}")
        return f"#{step.number}: deleted our second comment"
    number = step.pull.number
    if github.get_pull(number).head_sha != step.pull.head_sha:
        return f"#{number}: not closed, because it was pushed to meanwhile"
    github.upsert_comment(number, _CLOSED, _WHY_CLOSED)
    github.close_pull(number)
    return f"#{number}: closed, because it improves nothing"


def _hold(step: HoldRow, context: BotContext, now: datetime) -> str:
    with context.open_ledger(under("moderation")) as branch:
        for judgement in step.judgements:
            branch.ledger.append_fact(hold(judgement, step.reason, by=ACTIONS_BOT.id, at=now))
        branch.commit(f"Hold {step.name}")
    return f"{step.name}: held: {step.reason}"


def _ask(request: Request, context: BotContext) -> str:
    """Request a rematch, unless another run already has."""
    with context.open_ledger(requests_of(request.user_id)) as branch:
        is_new = branch.ledger.append_request(request)
        if not is_new or request.place not in branch.commit(f"{request.id}: {request.reason}"):
            return f"{request.id}: already requested by another run"
        of_pull = PullRecord.read(request, branch.ledger, context.root)
    update_comment(of_pull, context.github, {request.id})
    workflow_runs.start(context.github, request, context.default_branch)
    return f"{request.id}: requested, {request.reason}"


def _merge(request: Request, context: BotContext) -> str:
    # Read the ledger again: a merge cannot be undone, and since the plan was made, its author may have withdrawn the
    # result, or a maintainer may have removed it or banned its author.
    board = boards([(request.task, request.gpu)])
    with context.open_ledger(either(requests_of(request.user_id), under("moderation"), board)) as branch:
        moderated = Moderated.after(branch.ledger.moderations())
        of_pull = PullRecord.read(request, branch.ledger, context.root)
        tables = LedgerBoards(branch.ledger, context.root)
        status = next((one for one in of_pull.statuses if one.request.id == request.id), None)
        if not status or tables.place(status) is not PlaceKind.ROW:
            return "not merged: its result no longer makes its author's row"
    return merge(request, of_pull, moderated, context)


def _end(step: EndRequest, context: BotContext, now: datetime) -> str:
    request = step.request
    ending = Ending(request=request.id, state=step.state, at=now, note=step.note)
    with context.open_ledger(requests_of(request.user_id)) as branch:
        if not (of_pull := end(request, ending, branch, context.root)):
            return f"{request.id}: already ended differently"
    for found in step.runs:
        context.github.cancel_run(found.id)
    show_state(of_pull, check_without_report(request, ending), context.github)
    return f"{request.id}: {step.state}, {step.note}"


def _tell(request: Request, ending: Ending | None, context: BotContext) -> str:
    with context.open_ledger(requests_of(request.user_id)) as branch:
        of_pull = PullRecord.read(request, branch.ledger, context.root)
    if ending:
        show_state(of_pull, check_without_report(request, ending), context.github)
    else:  # Its own run writes the check run, and may have completed it since the plan was made.
        update_comment(of_pull, context.github, {request.id})
    return f"{request.id}: updated the comment"


def _why_events_are_lost(github: GitHub) -> str:
    """What to fix in the repository, if no event ever starts intake."""
    try:
        return why_events_are_lost(github.runs(intake.WORKFLOW))
    except GitHubError:
        return ""
