"""A board's section of the pull request's comment: queued, done, or ended.

request                      ──▶  queued_section
judgement, as a report       ──▶  done_section
ending without a report      ──▶  ended_section
the board's own check run    ──▶  section_of_check, if the comment has lost what the check run still says
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

from harness.records.verdict import Verdict
from scripts.bot.comment.comment_text import BoardMarker, BoardSection, BoardState, sealed
from scripts.common.text import inline, shorten
from scripts.github.checks import CheckRun, CheckState
from scripts.ledger.request import Ending, EndState, Request

MAX_SUMMARY = 200

_HEADING = re.compile(r"### .*?: (.+)")


def queued_section(request: Request) -> BoardSection:
    """Requested, and waiting for a machine."""
    return BoardSection(facts=_facts(request, BoardState.QUEUED, f"queued since {_clock(request.asked_at)}"))


def done_section(request: Request, verdict: Verdict, report: str) -> BoardSection:
    """Judged: `report` is what `judgement_section.render` made; its first line becomes the summary."""
    heading = _HEADING.match(report)
    summary = heading[1] if heading else f"{verdict.label} ({verdict})"
    facts = _facts(request, BoardState.DONE, summary, accepted=verdict is Verdict.ACCEPTED)
    return BoardSection(facts=facts, report=sealed(report))


def ended_section(request: Request, ending: Ending) -> BoardSection:
    """Ended without a report."""
    # Backticks in the refusal would end our code.
    why = inline(ending.note.replace("`", "'"), 100) if ending.state in _EXPLAINED else ""
    summary = f"{_ENDED[ending.state]}: {why}" if why else _ENDED[ending.state]
    if ending.verdict and ending.state is EndState.JUDGED:
        summary = f"{ending.verdict.label} ({ending.verdict}); {summary}"
    state = BoardState.REFUSED if ending.state is EndState.REFUSED else BoardState.ENDED
    return BoardSection(facts=_facts(request, state, summary))


def section_of_check(section: BoardSection, check: CheckRun) -> BoardSection:
    """The section as the check run of the same request says, if that is done and the section is not."""
    facts = section.facts
    if section.is_done or check.external_id != facts.request or not check.state.is_done:
        return section
    known = facts.model_copy(update={"summary": shorten(check.title, MAX_SUMMARY)})
    if check.state not in _JUDGED:
        state = BoardState.REFUSED if check.title.startswith(_ENDED[EndState.REFUSED]) else BoardState.ENDED
        return BoardSection(facts=known.model_copy(update={"state": state}), report=section.report)
    accepted = check.state is CheckState.SUCCESS
    done = known.model_copy(update={"state": BoardState.DONE, "accepted": accepted})
    return BoardSection(facts=done, report=sealed(check.summary))


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


def _clock(time: datetime) -> str:
    return f"{time:%H:%M} UTC"
