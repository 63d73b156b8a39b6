"""A board's section of the pull request's comment: queued, done, or ended.  Pure.

request                        ──▶  queued_section
judgement, as a report         ──▶  done_section
judged, its report is missing  ──▶  unreported_section
ending without a report        ──▶  ended_section
the board's own check run      ──▶  section_of_check, if it knows more
"""

from __future__ import annotations

import re
from typing import Any

from harness.records.verdict import Verdict
from scripts.bot.comment.comment_text import BoardSection
from scripts.bot.comment.markers import BoardMarker, BoardState, sealed
from scripts.bot.evaluate.workflow_runs import check_of
from scripts.common.text import inline, shorten
from scripts.github.checks import Check, CheckRun, CheckState
from scripts.ledger.request import WITHDRAWN, Ending, EndState, Request

MAX_SUMMARY = 200

_HEADING = re.compile(r"### .*?: (.+)")


def queued_section(request: Request) -> BoardSection:
    """Requested, and waiting for a machine."""
    return BoardSection(facts=_facts(request, BoardState.QUEUED, f"queued since {request.asked_at:%H:%M} UTC"))


def done_section(request: Request, verdict: Verdict, report: str) -> BoardSection:
    """Judged: `report` is what `judgement_section.render` made; its first line becomes the summary."""
    heading = _HEADING.match(report)
    summary = heading[1] if heading else f"{verdict.label} ({verdict})"
    facts = _facts(request, BoardState.DONE, summary, accepted=verdict is Verdict.ACCEPTED)
    return BoardSection(facts=facts, report=sealed(report))


def unreported_section(request: Request, verdict: Verdict) -> BoardSection:
    """Judged, but another run is still writing the report."""
    summary = f"{verdict.label} ({verdict}); its report follows"
    return BoardSection(facts=_facts(request, BoardState.QUEUED, summary))


def ended_section(request: Request, ending: Ending) -> BoardSection:
    """Ended without a report."""
    # Backticks in the refusal would end our code.
    why = inline(ending.note.replace("`", "'"), 100) if ending.state in _EXPLAINED else ""
    summary = f"{_ENDED[ending.state]}: {why}" if why else _ENDED[ending.state]
    if ending.verdict and ending.state is EndState.JUDGED:
        summary = f"{ending.verdict.label} ({ending.verdict}); {summary}"
    state = BoardState.REFUSED if ending.state is EndState.REFUSED else BoardState.ENDED
    return BoardSection(facts=_facts(request, state, summary))


def check_without_report(request: Request, ending: Ending) -> Check:
    """The check run of a board that has ended without a report."""
    state = CheckState.CANCELLED if ending.state in WITHDRAWN else CheckState.NEUTRAL
    return check_of(request, state, ended_section(request, ending).facts.summary)


def section_of_check(request: Request, check: CheckRun) -> BoardSection | None:
    """The section from a finished check run of this request; None for any other check run."""
    if check.external_id != request.id or not check.state.is_done:
        return None
    state = state_of_check(check)
    if state is not BoardState.DONE:
        return BoardSection(facts=_facts(request, state, check.title))
    facts = _facts(request, state, check.title, accepted=check.state is CheckState.SUCCESS)
    return BoardSection(facts=facts, report=sealed(check.summary))


def state_of_check(check: CheckRun) -> BoardState:
    """The state of a board by its check run."""
    if not check.state.is_done:
        return BoardState.QUEUED
    if check.state in _JUDGED:
        return BoardState.DONE
    return BoardState.REFUSED if check.title.startswith(_ENDED[EndState.REFUSED]) else BoardState.ENDED


_JUDGED = (CheckState.SUCCESS, CheckState.FAILURE)
_EXPLAINED = (EndState.FAILED, EndState.REFUSED)
_ENDED = {
    EndState.JUDGED: "its report is lost; `/rerun` judges it again",
    EndState.REFUSED: "not judged",
    EndState.SUPERSEDED: "superseded by a newer request",
    EndState.CANCELLED: "cancelled; `/rerun` starts it again",
    EndState.FAILED: "failed on our side; `/rerun` starts it again",
}


def _facts(request: Request, state: BoardState, summary: str, **rest: Any) -> BoardMarker:
    return BoardMarker(
        gpu=request.gpu,
        task=request.task,
        mode=request.mode,
        head_sha=request.head_sha,
        request=request.id,
        state=state,
        summary=shorten(summary, MAX_SUMMARY),
        **rest,
    )
