"""Write the result of a judging to the ledger: judgement, ending, hold, the author's description of the commit.

After a failure of ours, also the next attempt.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from harness.records.judgement import Claim, Judgement
from harness.task.task import Board
from scripts.bot.context import BotContext
from scripts.bot.report.artifact import why_below_the_floor
from scripts.bot.report.description import read_description
from scripts.bot.report.outcome import JudgingOutcome, judge_job, seconds_of
from scripts.bot.report.places import LedgerBoards
from scripts.common.text import format_percent
from scripts.github.pulls import ACTIONS_BOT, PullRequest
from scripts.ledger.branch import LedgerBranch
from scripts.ledger.description import CommitDescription
from scripts.ledger.ledger import Ledger, RequestStatus
from scripts.ledger.moderation import hold
from scripts.ledger.request import LONGEST_JOB_S, RETRY, Ending, EndState, Request, Spent
from scripts.standings.claims import bound_share, worst_bound

_MEASURED = {Claim.INSIDE_TIMED: "inside its own process", Claim.SELF_TIMED: "by the task's own program"}

_TEMPLATE = ".github/PULL_REQUEST_TEMPLATE.md"
LARGE_BOUND = 0.2
"""A GPU's kernels are short: more of a time than this may be overhead that a file could save by tampering."""
MAX_FAILURES = 3
"""After this many failures of ours in a row, the bot does not retry a judging."""
NO_MACHINE = timedelta(hours=12)
"""A judging that waited this long without a machine has not failed: GitHub ends jobs that no runner takes in a day."""


def record(
    status: RequestStatus,
    outcome: JudgingOutcome,
    board: Board | None,
    branch: LedgerBranch,
    context: BotContext,
    at: datetime,
) -> Request | None:
    """Write the result to the ledger; returns the new attempt if it failed on our side and this run must start it.

    If the request ends otherwise meanwhile, such as by `/withdraw`, nothing is written.
    """
    ledger, request, judgement = branch.ledger, status.request, outcome.judgement
    again: Request | None = None

    def decide() -> str:
        nonlocal again
        again = None
        if any(one.ending for one in ledger.requests(user_id=request.user_id) if one.request.id == request.id):
            return f"{request.id}: ended meanwhile"
        if judgement and board and request.is_ranked and not ledger.has_judgement_of(request):
            ledger.append(judgement, request.id)
            if outcome.pull and (description := _description(request, outcome.pull, context, at)):
                ledger.append_fact(description)
            if reason := _why_held(judgement, board, ledger, context):
                ledger.append_fact(hold(judgement, reason, by=ACTIONS_BOT.id, at=at))
        ending = outcome.ending(request, at)
        ledger.append_ending(request, ending)
        is_hopeful = ending.state is EndState.FAILED and not outcome.is_hopeless
        again = next_attempt(request, ledger.requests(user_id=request.user_id), at) if is_hopeful else None
        if again:
            ledger.append_request(again)
        return f"{request.id}: {ending.verdict or ending.state}"

    standing = set(branch.commit(decide(), decide))
    return again if again and again.place in standing else None


def _description(request: Request, pull: PullRequest, context: BotContext, at: datetime) -> CommitDescription | None:
    """What the author says about the commit in the description of its pull request; None if that is nothing."""
    template = context.root / _TEMPLATE
    text = template.read_text("utf-8", "replace") if template.is_file() else ""
    co_authors, note = read_description(pull.body, request.login, text)
    if not (co_authors or note):
        return None
    return CommitDescription(
        task=request.task,
        pull_request=request.pull_request,
        head_sha=request.head_sha,
        co_authors=co_authors,
        note=note,
        at=at,
    )


def note_cost(
    status: RequestStatus, run_id: int | None, branch: LedgerBranch, context: BotContext, at: datetime
) -> str:
    """Record the machine time of a withdrawn request; returns a remark for the log, empty if there was none."""
    request = status.request
    if not run_id or status.spent or not status.ending or status.ending.state is EndState.FAILED:
        return ""
    seconds = min(seconds_of(judge_job(run_id, context.github)), LONGEST_JOB_S)
    if not seconds or not branch.ledger.append_spent(request, Spent(request=request.id, seconds=seconds, at=at)):
        return ""
    branch.commit(f"{request.id}: {seconds:.0f} s until it was withdrawn")
    return f"; {seconds:.0f} s of machine time count"


def _why_held(judgement: Judgement, board: Board, ledger: Ledger, context: BotContext) -> str:
    """Why a judgement needs a maintainer's review before it counts; empty if it does not."""
    reason = why_below_the_floor(judgement, board, context.settings.gpus[board.gpu])
    if not reason and (doubt := find_doubt(judgement, board)):
        first = LedgerBoards(ledger, context.root).of(board).champion
        if first and judgement.checksum in (one.checksum for one in first.judgements):
            return f"it would be first with a time {doubt}"
    return reason


def find_doubt(judgement: Judgement, board: Board) -> str:
    """Why its times are not good enough for first place without a review; empty if they are."""
    if judgement.claim is not Claim.BOUNDED:
        return f"measured {_MEASURED[judgement.claim]}"
    worst = worst_bound(judgement) if board.gpu != "CPU" else None
    if worst and bound_share(worst) > LARGE_BOUND:
        return f"that the referee's clock bounds only to {format_percent(bound_share(worst))}"
    return ""


def next_attempt(request: Request, history: Iterable[RequestStatus], at: datetime) -> Request | None:
    """The same request again after a failure of ours; None after too many in a row."""
    failed = {
        one.request.attempt
        for one in history
        if one.request.series == request.series
        and one.ending
        and one.ending.state is EndState.FAILED
        and not _waited_in_vain(one.request, one.ending)
    }
    in_a_row = range(request.attempt, request.attempt - MAX_FAILURES, -1)
    if failed >= set(in_a_row):
        return None
    return request.again(asked_at=at, first_asked_at=request.in_time_at, reason=RETRY)


def _waited_in_vain(request: Request, ending: Ending) -> bool:
    """Whether GitHub ended the run because no machine took it for a day; it is judged when a machine is back."""
    return not ending.seconds and ending.at - request.asked_at >= NO_MACHINE
