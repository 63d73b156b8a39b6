"""The result of a judging: the judgement that the run's artifact holds, or why there is none.

the run's artifact ─▶ read, compared with the request ─▶ its judgement
                                                      ─▶ our failure: no artifact, an error, a rejected judgement
a file that would rank, of a pull request that is closed or a draft by now ─▶ withdrawn
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from harness.records.judgement import Judgement
from harness.records.provenance import harness_digest
from harness.records.verdict import Verdict
from harness.task.task import Board
from scripts.bot.context import BotContext
from scripts.bot.evaluate import workflow_runs
from scripts.bot.report.artifact import MAX_ZIP, ArtifactError, newest_artifact, read_artifact, why_no_match
from scripts.github.pulls import GitHubError, Job, PullRequest
from scripts.ledger.ledger import Ledger, RequestStatus
from scripts.ledger.request import LONGEST_JOB_S, Ending, EndState, Request

if TYPE_CHECKING:
    from scripts.github.gh import GitHub

ARTIFACT = "judgement"
JUDGE_JOB = "judge"


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

    `is_hopeless`: trying again would not help.  `is_withdrawn`: the judging is no longer wanted.  `is_known`: the
    ledger has the judgement already.  `pull` is the pull request, if it was read for this.
    """

    judgement: Judgement | None = None
    trouble: str = ""
    seconds: float = 0.0
    is_hopeless: bool = False
    is_withdrawn: bool = False
    is_known: bool = False
    pull: PullRequest | None = None

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


def find_outcome(
    status: RequestStatus,
    board: Board | None,
    run_id: int | None,
    judge_result: str,
    ledger: Ledger,
    context: BotContext,
    hints: Hints,
) -> JudgingOutcome:
    """The result of a request's judging; for one that has ended, first what the ledger holds."""
    request = status.request
    if status.ending:
        if known := ledger.judgement_of(request):
            return JudgingOutcome(judgement=known, is_known=True)
        run_id = run_id or workflow_runs.find_run(context.github, request, status.ending)
    if not run_id:
        return JudgingOutcome()
    outcome = fetch(request, board, run_id, judge_result, context, hints)
    return outcome if status.ending else _unless_withdrawn(request, outcome, context.github)


# A file that would rank.


def _unless_withdrawn(request: Request, outcome: JudgingOutcome, github: GitHub) -> JudgingOutcome:
    """The same, unless its pull request must be ready and is not; a rematch does not depend on that."""
    if not request.is_ranked or request.is_rematch or not outcome.is_accepted:
        return outcome
    pull = _find_pull(request.pull_request, github)
    if reason := _why_withdrawn(pull):
        return JudgingOutcome(trouble=reason, seconds=outcome.seconds, is_withdrawn=True)
    return replace(outcome, pull=pull)


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
    request: Request, board: Board | None, run_id: int, judge_result: str, context: BotContext, hints: Hints
) -> JudgingOutcome:
    """The judgement of a run, if it has one that answers the request."""
    if not board or request.gpu not in context.settings.gpus:
        return JudgingOutcome(trouble="the board no longer exists", is_hopeless=True)
    job, gpu, run_url = judge_job(run_id, context.github), context.settings.gpus[request.gpu], context.run_url(run_id)
    try:
        judgement = read_artifact(_download(run_id, judge_result, hints, context.github))
        if reason := why_no_match(judgement, request, board, gpu, harness_digest(), job, run_url):
            raise ArtifactError(f"the judgement was rejected: {reason}")
        baseline = board.task.baseline_name(judgement.submission.digest)
        if (judgement.edition, judgement.baseline) != (board.edition, baseline):
            raise ArtifactError("the task changed during the judging")
    except ArtifactError as error:
        return JudgingOutcome(trouble=str(error), seconds=seconds_of(job))
    return JudgingOutcome(judgement=judgement, seconds=seconds_of(job))


def _download(run_id: int, judge_result: str, hints: Hints, github: GitHub) -> bytes:
    """The artifact's zip: by the id that the judge's job reported, or else the run's newest of that name."""
    if hints.artifact:
        with contextlib.suppress(GitHubError):
            return github.download_artifact(hints.artifact, MAX_ZIP, hints.digest)
    return newest_artifact(github, run_id, ARTIFACT, MAX_ZIP, judge_result)


def judge_job(run_id: int, github: GitHub) -> Job | None:
    return next((job for job in github.jobs(run_id) if job.name == JUDGE_JOB), None)


def seconds_of(job: Job | None) -> float:
    """How long a machine worked.  GitHub also reports times for jobs that no runner took."""
    if not job or not job.runner or not job.started_at or not job.completed_at:
        return 0.0
    return max(0.0, (job.completed_at - job.started_at).total_seconds())
