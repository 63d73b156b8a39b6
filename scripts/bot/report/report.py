"""`pullrank ci report`: turn a judge's artifact into facts in the ledger, a check run, a comment and a merge.

    artifact ─▶ read, compared with the request ─▶ judged    judgement (if ranked) and ending into the ledger
                                                   failed    ending; requested again as a new attempt
                                                   cancelled ending: closed or a draft, but would have made a row
             ─▶ the board's check run ─▶ its section of the comment ─▶ merge, if due ─▶ publication

The ledger comes first, and the comment after the check: the reconciler finds and does whatever is left undone.  Run
twice, it reports the same again; for a ranked judging, it reports what the ledger holds.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from harness.records.errors import PullRankError
from harness.records.judgement import Claim, Judgement
from harness.records.verdict import Verdict
from harness.task.task import Board
from scripts.bot.comment.check_report import check_of_judgement
from scripts.bot.comment.comment_text import BoardSection
from scripts.bot.comment.judgement_section import render
from scripts.bot.comment.sections import done_section, ended_section, queued_section, section_of_check
from scripts.bot.comment.write_comment import find_checks, tell, tell_comment
from scripts.bot.evaluate import workflow_runs
from scripts.bot.evaluate.resolve import require_request
from scripts.bot.report.artifact import MAX_ZIP, Trouble, Window, read_artifact, why_below_the_floor, why_not_the_answer
from scripts.bot.report.merging import MERGED, find_due, merge
from scripts.bot.report.places import Tables, board_of
from scripts.github.checks import Check, CheckState
from scripts.github.pulls import GitHubError, Job, PullRequest
from scripts.github.start_workflow import start_workflow
from scripts.ledger.ledger import Ledger, RequestStatus
from scripts.ledger.moderation import Action, Moderated, Moderation
from scripts.ledger.names import Choice, boards, either, requests_of_author_of, under
from scripts.ledger.request import LONGEST_JOB_S, RETRY, WITHDRAWN, Ending, EndState, Request, Spent, make_id
from scripts.standings.standings import Standings

if TYPE_CHECKING:
    from scripts.competition.settings import Settings
    from scripts.github.fork import Fork
    from scripts.github.gh import GitHub
    from scripts.ledger.branch import LedgerBranch

ARTIFACT = "judgement"
JUDGE_JOB = "judge"
PUBLISH_WORKFLOW = "publish.yml"
MAX_FAILURES = 3
"""After this many failures of ours in a row, the bot does not retry a judging."""
NO_MACHINE = timedelta(hours=12)
"""A judging that waited this long without a machine has not failed: GitHub ends jobs that no runner takes in a day."""


@dataclass(frozen=True, kw_only=True)
class ReportContext:
    """What a delivery needs; `harness_digest` is that of the judge on `main`."""

    github: GitHub
    open_ledger: Callable[[Choice], LedgerBranch]
    open_fork: Callable[[], Fork]
    settings: Settings
    root: Path
    harness_digest: str
    default_branch: str
    server_url: str = "https://github.com"

    def run_url(self, run_id: int) -> str:
        return f"{self.server_url}/{self.github.repository}/actions/runs/{run_id}"


@dataclass(frozen=True, kw_only=True)
class Hints:
    """What the jobs of a run reported about themselves.  Each hint saves an API request; missing ones are looked up.

    `check` is the id of the board's check run.  `artifact` and `digest` come from the judge and are trusted no more
    than the artifact itself.
    """

    check: int | None = None
    artifact: int | None = None
    digest: str = ""


@dataclass(frozen=True, kw_only=True)
class JudgingOutcome:
    """The result of a judging: a judgement that answers the request, or why we failed to make one.

    `is_hopeless`: trying again would not help.  `is_withdrawn`: the judging is no longer wanted.
    """

    judgement: Judgement | None = None
    trouble: str = ""
    seconds: float = 0.0
    is_hopeless: bool = False
    is_withdrawn: bool = False

    @property
    def is_accepted(self) -> bool:
        return self.judgement is not None and self.judgement.verdict is Verdict.ACCEPTED

    def ending(self, request: Request, at: datetime) -> Ending:
        seconds = min(self.seconds, LONGEST_JOB_S)
        if not self.judgement:
            state = EndState.CANCELLED if self.is_withdrawn else EndState.FAILED
            return Ending(request=request.id, state=state, seconds=seconds, at=at, note=self.trouble[:500])
        verdict = self.judgement.verdict
        return Ending(request=request.id, state=EndState.JUDGED, verdict=verdict, seconds=seconds, at=at)


def run(
    request_id: str,
    run_id: int | None,
    judge_result: str,
    context: ReportContext,
    now: datetime | None = None,
    hints: Hints | None = None,
    show: Callable[[str], object] | None = None,
) -> str:
    """Deliver the result of a run's judge; returns a log line.

    Args:
        run_id: may be None for a request that was judged: its run is looked up if the ledger does not hold everything.
        show: called with the report as Markdown, if there is one.

    Raises:
        PullRankError: GitHub, the ledger, or the repository's own files fail.
    """
    at, hints = (now or datetime.now(UTC)).replace(microsecond=0), hints or Hints()
    with context.open_ledger(either(requests_of_author_of(request_id), under("moderation"))) as branch:
        status = require_request(branch.ledger, request_id)
        request = status.request
        of_pull = _of_pull(branch.ledger, request)
        branch.check_out(boards({(one.request.task, one.request.gpu) for one in of_pull}))
        if status.ending and status.ending.state is not EndState.JUDGED:
            cost = _note_cost(status, run_id, branch, context, at)
            return f"{request_id}: already {status.ending.state}; nothing to deliver{cost}"
        if (
            run_id
            and judge_result == "cancelled"
            and not status.ending
            and _is_run_anew(request, run_id, context.github)
        ):
            return f"{request_id}: this run was cancelled for a newer one of the same request"
        board = board_of(request, context.root)
        kept = branch.ledger.judgement_of(request) if status.ending else None
        if not kept and not run_id and status.ending:
            run_id = workflow_runs.find_run(context.github, request, status.ending)
        outcome = JudgingOutcome(judgement=kept)
        if not kept and run_id:
            outcome = fetch(request, board, run_id, judge_result, context, hints)
        pull = None
        if not status.ending and _would_rank(request, outcome):
            pull = _find_pull(request.pull_request, context.github)
            if reason := _why_withdrawn(pull):
                outcome = JudgingOutcome(trouble=reason, seconds=outcome.seconds, is_withdrawn=True)
        if status.ending and not outcome.judgement:
            return _tell_lost(request, status.ending, context.github)
        again = None if status.ending else record(status, outcome, board, branch, context, at)
        standing = require_request(branch.ledger, request_id).ending
        if not standing or (standing.state is EndState.JUDGED) != bool(outcome.judgement):
            return f"{request_id}: already ended differently; nothing to deliver"
        tables = Tables(branch.ledger, context.root)
        section, check = _words(request, outcome, again, standing, board, tables)
        due = find_due(_of_pull(branch.ledger, request), request.head_sha, tables) if request.is_ranked else None
        moderated = Moderated.after(branch.ledger.moderations())
    # On a second run, `tell` looks the check run up, because it may already be complete.
    short = tell(request, section, check, context.github, known_check=None if status.ending else hints.check)
    if show and section.is_done:
        show(section.report)
    came = outcome.judgement.verdict if outcome.judgement else f"{standing.state} ({outcome.trouble})"
    said = f"{request_id}: {came}"
    said += f"; {short}" if short else ""
    if again:
        workflow_runs.start(context.github, again, context.default_branch)
        said += f"; requested again as {again.id}"
    done = merge_judged(due, moderated, context, pull) if due else ""
    said += f"; {done}" if done else ""
    if not kept and (done == MERGED or (request.is_ranked and outcome.is_accepted)):
        start_workflow(context.github, PUBLISH_WORKFLOW, {}, context.default_branch)
    return said


def _of_pull(ledger: Ledger, request: Request) -> list[RequestStatus]:
    """All requests of its pull request."""
    history = ledger.requests(user_id=request.user_id)
    return [one for one in history if one.request.pull_request == request.pull_request]


def _is_run_anew(request: Request, run_id: int, github: GitHub) -> bool:
    title = workflow_runs.run_title(request.id)
    return any(run.title == title and run.id > run_id for run in github.runs(workflow_runs.WORKFLOW))


def merge_judged(due: Request, moderated: Moderated, context: ReportContext, pull: PullRequest | None = None) -> str:
    """Merge a judged commit unless there is a reason not to; returns a log line."""
    return merge(due, context.settings, moderated, context.github, context.open_fork, context.default_branch, pull)


def _would_rank(request: Request, outcome: JudgingOutcome) -> bool:
    """Whether it may make a row, for which its pull request must still be ready; a rematch does not depend on that."""
    return request.is_ranked and not request.is_rematch and outcome.is_accepted


def _find_pull(number: int, github: GitHub) -> PullRequest | None:
    """A pull request; None if GitHub hides it, as it does for accounts that it has flagged."""
    try:
        return github.get_pull(number)
    except GitHubError as error:
        if error.status in (404, 410):
            return None
        raise


def _why_withdrawn(pull: PullRequest | None) -> str:
    """Why a pull request is no longer ranked although the ledger does not say so; empty if it still is.

    If it is closed before intake has handled its opening, the closing ends nothing: there are no requests yet.
    """
    if not pull:
        return "the pull request no longer exists"
    if not (pull.is_open or pull.merged):
        return "the pull request was closed"
    return "the pull request became a draft" if pull.is_open and pull.is_draft else ""


# The judge's artifact.


def fetch(
    request: Request, board: Board | None, run_id: int, judge_result: str, context: ReportContext, hints: Hints
) -> JudgingOutcome:
    """The judgement of a run, if it has one that answers the request."""
    if not board or request.gpu not in context.settings.gpus:
        return JudgingOutcome(trouble="the board no longer exists", is_hopeless=True)
    job = _judge_job(run_id, context.github)
    seconds = _seconds(job)
    content = _download(run_id, hints, context.github)
    if content is None:
        return JudgingOutcome(trouble=f"the judge's job ended ({judge_result}) without a judgement", seconds=seconds)
    try:
        handed = read_artifact(content)
    except PullRankError as error:
        return JudgingOutcome(trouble=str(error), seconds=seconds)
    if isinstance(handed, Trouble):
        return JudgingOutcome(trouble=handed.message, seconds=seconds)
    gpu = context.settings.gpus[request.gpu]
    if reason := why_not_the_answer(
        handed, request, board, gpu, context.harness_digest, _window(job), context.run_url(run_id)
    ):
        return JudgingOutcome(trouble=f"the judgement was rejected: {reason}", seconds=seconds)
    if handed.edition != board.edition:
        return JudgingOutcome(trouble="the task changed during the judging", seconds=seconds)
    return JudgingOutcome(judgement=handed, seconds=seconds)


def _download(run_id: int, hints: Hints, github: GitHub) -> bytes | None:
    """The artifact's zip: by the id that the judge's job reported, or else the run's newest of that name.

    GitHub's own errors are raised: the artifact stays there for the next attempt.
    """
    if hints.artifact:
        with contextlib.suppress(GitHubError):
            return github.download_artifact(hints.artifact, MAX_ZIP, hints.digest)
    found = [one for one in github.artifacts(run_id, ARTIFACT) if one.name == ARTIFACT and not one.is_expired]
    if not found:
        return None
    newest = max(found, key=lambda one: one.id)
    return github.download_artifact(newest.id, MAX_ZIP, newest.digest or "") if newest.size <= MAX_ZIP else b""


def _judge_job(run_id: int, github: GitHub) -> Job | None:
    return next((job for job in github.jobs(run_id) if job.name == JUDGE_JOB), None)


def _seconds(job: Job | None) -> float:
    """How long a machine worked.  GitHub also reports times for jobs that no runner took."""
    if not job or not job.runner or not job.started_at or not job.completed_at:
        return 0.0
    return max(0.0, (job.completed_at - job.started_at).total_seconds())


def _window(job: Job | None) -> Window | None:
    if not job or not job.started_at:
        return None
    return Window(started_at=job.started_at, ended_at=job.completed_at or datetime.now(UTC))


# The ledger.


def record(
    status: RequestStatus,
    outcome: JudgingOutcome,
    board: Board | None,
    branch: LedgerBranch,
    context: ReportContext,
    at: datetime,
) -> Request | None:
    """Write the result to the ledger; returns the new attempt if it failed on our side and this run must start it."""
    ledger, request, judgement = branch.ledger, status.request, outcome.judgement
    if judgement and board and request.is_ranked and not ledger.has_judgement_of(request):
        ledger.append(judgement, request.id)
        if reason := _why_held(judgement, board, ledger, context):
            ledger.append_moderation(_hold(request, judgement, reason, at))
    ending = outcome.ending(request, at)
    ledger.append_ending(request, ending)
    is_hopeful = ending.state is EndState.FAILED and not outcome.is_hopeless
    again = next_attempt(request, ledger.requests(user_id=request.user_id), at) if is_hopeful else None
    if again:
        ledger.append_request(again)
    standing = set(branch.commit(f"{request.id}: {ending.verdict or ending.state}"))
    return again if again and again.place in standing else None


def _note_cost(
    status: RequestStatus, run_id: int | None, branch: LedgerBranch, context: ReportContext, at: datetime
) -> str:
    """Record the machine time of a withdrawn request; returns a remark for the log, empty if there was none."""
    request = status.request
    if not run_id or status.spent or not status.ending or status.ending.state is EndState.FAILED:
        return ""
    seconds = min(_seconds(_judge_job(run_id, context.github)), LONGEST_JOB_S)
    if not seconds or not branch.ledger.append_spent(request, Spent(request=request.id, seconds=seconds, at=at)):
        return ""
    branch.commit(f"{request.id}: {seconds:.0f} s until it was withdrawn")
    return f"; {seconds:.0f} s of machine time count"


def _why_held(judgement: Judgement, board: Board, ledger: Ledger, context: ReportContext) -> str:
    """Why a judgement needs a maintainer's review before it counts; empty if it does not."""
    reason = why_below_the_floor(judgement, board, context.settings.gpus[board.gpu])
    if not reason and judgement.claim is Claim.INSIDE_TIMED:
        return why_first_waits(judgement, Tables(ledger, context.root).of(board))
    return reason


def why_first_waits(judgement: Judgement, table: Standings) -> str:
    """Why a time measured inside the submission's process needs a review: it would be first.  Empty if it would not."""
    first = next((row for row in table.rows if row.champion), None)
    if not first or judgement.checksum not in (one.checksum for one in first.judgements):
        return ""
    return "it would be first with a time measured inside its own process"


def next_attempt(request: Request, history: Iterable[RequestStatus], at: datetime) -> Request | None:
    """The same request again after a failure of ours; None after too many in a row."""
    failed = {
        one.request.attempt
        for one in history
        if (one.request.pull_request, one.request.head_sha) == (request.pull_request, request.head_sha)
        and (one.request.gpu, one.request.mode) == (request.gpu, request.mode)
        and one.ending
        and one.ending.state is EndState.FAILED
        and not _waited_in_vain(one.request, one.ending)
    }
    in_a_row = range(request.attempt, request.attempt - MAX_FAILURES, -1)
    if failed >= set(in_a_row):
        return None
    new_id = make_id(request.pull_request, request.head_sha, request.gpu, request.mode, request.attempt + 1)
    again = {"id": new_id, "asked_at": at, "first_asked_at": request.in_time_at}
    return request.model_copy(update={**again, "reason": RETRY})


def _waited_in_vain(request: Request, ending: Ending) -> bool:
    """Whether GitHub ended the run because no machine took it for a day; it is judged when a machine is back."""
    return not ending.seconds and ending.at - request.asked_at >= NO_MACHINE


def _hold(request: Request, judgement: Judgement, reason: str, at: datetime) -> Moderation:
    return Moderation(
        id=f"held-{judgement.checksum[:12]}",
        action=Action.HOLD,
        judgement=judgement.checksum,
        reason=reason,
        by=request.asked_by,
        at=at,
    )


# Comment and check run.


def _tell_lost(request: Request, ending: Ending, github: GitHub) -> str:
    """Report a judgement that no longer exists: what its check run still says, or else that it was judged."""
    section = queued_section(request)
    for check in find_checks(request.head_sha, github, workflow_runs.check_name(request.gpu)):
        section = section_of_check(section, check)
    if section.is_done:
        tell_comment(request, section, github)
        return f"{request.id}: already judged; its report was restored from the check run"
    section = ended_section(request, ending)
    tell(request, section, workflow_runs.check_of(request, CheckState.NEUTRAL, section.facts.summary), github)
    return f"{request.id}: already judged, but its judgement no longer exists"


def _words(
    request: Request,
    outcome: JudgingOutcome,
    again: Request | None,
    ending: Ending,
    board: Board | None,
    tables: Tables,
) -> tuple[BoardSection, Check]:
    """The board's section of the comment, and its check run."""
    if outcome.judgement and board:
        judged, standings = outcome.judgement, tables.of(board)
        report = render(judged, board, standings, tables.earlier(judged), tables.hidden(judged))
        section = done_section(request, judged.verdict, report)
        return section, check_of_judgement(request, judged, section.facts.summary, report, standings)
    if again:
        title = "failed on our side; judged again"
        return queued_section(again), workflow_runs.check_of(again, CheckState.QUEUED, title)
    section = ended_section(request, ending)
    state = CheckState.CANCELLED if ending.state in WITHDRAWN else CheckState.NEUTRAL
    return section, workflow_runs.check_of(request, state, section.facts.summary)
