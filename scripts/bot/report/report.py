"""`pullrank ci report`: turn a judge's artifact into facts in the ledger, a check run, a comment and a merge.

    outcome      the run's artifact  ─▶ a judgement, a failure of ours, or withdrawn
    recording    into the ledger     ─▶ judgement (if ranked), ending; after a failure, a new attempt
    words        into GitHub         ─▶ the board's check run, then its section of the comment
    merging      the pull request, if its row is due; then publication

The ledger comes first, and the comment after the check: the reconciler finds and does whatever is left undone.  Run
twice, it reports the same again; for a ranked judging, it reports what the ledger holds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from harness.task.task import Board
from scripts.bot.comment.check_report import check_of_judgement
from scripts.bot.comment.comment_text import BoardSection
from scripts.bot.comment.judgement_section import render
from scripts.bot.comment.markers import Notice
from scripts.bot.comment.pull_record import PullRecord
from scripts.bot.comment.sections import check_without_report, done_section, ended_section, section_of_check
from scripts.bot.comment.write_comment import show_state, update_comment
from scripts.bot.context import PUBLISH_WORKFLOW, BotContext
from scripts.bot.evaluate import workflow_runs
from scripts.bot.evaluate.resolve import require_request
from scripts.bot.report.merging import MERGED, find_due, merge
from scripts.bot.report.outcome import Hints, JudgingOutcome, find_outcome
from scripts.bot.report.places import LedgerBoards, find_board
from scripts.bot.report.recording import note_cost, record
from scripts.bot.report.review import start_review
from scripts.common.text import shorten
from scripts.github.checks import Check, CheckState
from scripts.github.start_workflow import start_workflow
from scripts.ledger.branch import LedgerBranch
from scripts.ledger.moderation import Action, Moderated
from scripts.ledger.names import boards, either, requests_of_author_of, under
from scripts.ledger.request import Ending, EndState, Request
from scripts.standings.roofline import NO_ROOFLINE, Roofline

if TYPE_CHECKING:
    from scripts.github.gh import GitHub


def run(
    request_id: str,
    run_id: int | None,
    judge_result: str,
    context: BotContext,
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
    at, hints, github = (now or datetime.now(UTC)).replace(microsecond=0), hints or Hints(), context.github
    with context.open_ledger(either(requests_of_author_of(request_id), under("moderation"))) as branch:
        status = require_request(branch.ledger, request_id)
        request, was_ended = status.request, status.ending is not None
        if status.ending and status.ending.state is not EndState.JUDGED:
            cost = note_cost(status, run_id, branch, context, at)
            return f"{request_id}: already {status.ending.state}; nothing to deliver{cost}"
        if run_id and judge_result == "cancelled" and not was_ended and _is_run_anew(request, run_id, github):
            return f"{request_id}: this run was cancelled for a newer one of the same request"
        of_pull = PullRecord.read(request, branch.ledger, context.root)
        branch.check_out(boards({(one.request.task, one.request.gpu) for one in of_pull.statuses}))
        board = find_board(request.task, request.gpu, context.root)
        outcome = find_outcome(status, board, run_id, judge_result, branch.ledger, context, hints)
        if status.ending and not outcome.judgement:
            return _tell_lost(request, status.ending, of_pull, github)
        again = None if was_ended else record(status, outcome, board, branch, context, at)
        of_pull = PullRecord.read(request, branch.ledger, context.root)
        status = require_request(branch.ledger, request_id)
        ending = status.ending
        if not ending or (ending.state is EndState.JUDGED) != bool(outcome.judgement):
            cost = note_cost(status, run_id, branch, context, at)
            return f"{request_id}: already ended differently; nothing to deliver{cost}"
        tables = LedgerBoards(branch.ledger, context.root)
        roofline = Roofline(work=board.task.work, gpu=context.settings.gpus.get(board.gpu)) if board else NO_ROOFLINE
        section, check = _words(request, outcome, again, ending, board, tables, roofline)
        hidden = tables.hidden(outcome.judgement) if outcome.judgement else None
        if run_id and not check.summary:
            check = replace(check, summary=f"[The run's page]({context.run_url(run_id)}) has its log.")
        due = find_due(of_pull.statuses, request.head_sha, tables) if request.is_ranked else None
        moderated = Moderated.after(branch.ledger.moderations())
    # On a second run, `show_state` looks the check run up, because it may already be complete.
    short = show_state(of_pull, check, github, section=section, known_check=None if was_ended else hints.check)
    if show and section:
        show(section.report)
    came = outcome.judgement.verdict if outcome.judgement else f"{ending.state} ({outcome.trouble})"
    said = [f"{request_id}: {came}", short]
    if hidden and hidden.action is Action.HOLD:
        said.append(start_review(request_id, context))
    if again:
        workflow_runs.start(github, again, context.default_branch)
        said.append(f"requested again as {again.id}")
    done = ""
    try:
        done = merge(due, of_pull, moderated, context) if due else ""
    finally:  # A row needs no merge.
        if done == MERGED or (request.is_ranked and outcome.is_accepted and not outcome.is_known):
            start_workflow(github, PUBLISH_WORKFLOW, {}, context.default_branch)
    said.append(done)
    return "; ".join(filter(None, said))


def _is_run_anew(request: Request, run_id: int, github: GitHub) -> bool:
    title = workflow_runs.run_title(request.id)
    return any(run.title == title and run.id > run_id for run in github.runs(workflow_runs.WORKFLOW))


def _tell_lost(request: Request, ending: Ending, of_pull: PullRecord, github: GitHub) -> str:
    """Report a judgement that no longer exists: what its check run still says, or else that it was judged."""
    for check in reversed(github.checks(request.head_sha, workflow_runs.check_name(request.gpu))):
        section = section_of_check(request, check)
        if section and section.is_done:
            update_comment(of_pull, github, {request.id}, section=section)
            return f"{request.id}: already judged; its report was restored from the check run"
    show_state(of_pull, check_without_report(request, ending), github, section=ended_section(request, ending))
    return f"{request.id}: already judged, but its judgement no longer exists"


def _words(
    request: Request,
    outcome: JudgingOutcome,
    again: Request | None,
    ending: Ending,
    board: Board | None,
    tables: LedgerBoards,
    roofline: Roofline,
) -> tuple[BoardSection | None, Check]:
    """The board's section of the comment, if the ledger alone does not give it; and its check run."""
    if outcome.judgement and board:
        judged, standings = outcome.judgement, tables.of(board)
        report = render(judged, board, standings, tables.earlier(judged), tables.hidden(judged), roofline)
        section = done_section(request, judged.verdict, report)
        return section, check_of_judgement(request, judged, section.facts.summary, report, standings, roofline)
    if again:
        return None, workflow_runs.check_of(again, CheckState.QUEUED, "failed on our side; judged again")
    return None, check_without_report(request, ending)


def refuse(request_id: str, refusal: str, context: BotContext, now: datetime | None = None) -> str:
    """End a request; returns a log line.

    Args:
        refusal: one line of Markdown for the author.

    Raises:
        PullRankError: GitHub or the ledger fails.
    """
    at = (now or datetime.now(UTC)).replace(microsecond=0)
    with context.open_ledger(requests_of_author_of(request_id)) as branch:
        request = require_request(branch.ledger, request_id).request
        ending = Ending(request=request.id, state=EndState.REFUSED, at=at, note=shorten(refusal, 500))
        if not (of_pull := end(request, ending, branch, context.root)):
            return f"{request.id}: already ended; nothing to report"
    if not request.is_rematch:  # Only the bot asks for a rematch.
        notice = Notice(text=f"**Not judged.** {refusal}", head_sha=request.head_sha)
        show_state(of_pull, check_without_report(request, ending), context.github, notice=notice)
    return f"{request.id}: refused: {refusal}"


def end(request: Request, ending: Ending, branch: LedgerBranch, root: Path) -> PullRecord | None:
    """End a request; returns the record of its pull request, or None if it has ended already."""
    is_new = branch.ledger.append_ending(request, ending)
    if not is_new or request.place_of_ending not in branch.commit(f"{request.id}: {ending.state}"):
        return None
    return PullRecord.read(request, branch.ledger, root)
