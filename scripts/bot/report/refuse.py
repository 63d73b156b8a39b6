"""Carry out a refusal by `resolve`: end the request and tell its author why, in the comment and the board's check run.

Nothing is retried automatically: a push or `/rank` asks again, and then every check runs again.
"""

from __future__ import annotations

from datetime import UTC, datetime

from scripts.bot.comment.markers import Notice
from scripts.bot.comment.pull_record import PullRecord
from scripts.bot.comment.sections import ended_section
from scripts.bot.comment.write_comment import tell
from scripts.bot.evaluate import workflow_runs
from scripts.bot.evaluate.resolve import require_request
from scripts.bot.report.context import BotContext
from scripts.common.text import shorten
from scripts.github.checks import CheckState
from scripts.ledger.names import requests_of_author_of
from scripts.ledger.request import Ending, EndState


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
        is_new = branch.ledger.append_ending(request, ending)
        if not is_new or request.place_of_ending not in branch.commit(f"{request.id}: refused"):
            return f"{request.id}: already ended; nothing to report"
        record = PullRecord.read(request, branch.ledger, context.root)
    if not request.is_rematch:  # Only the bot asks for a rematch.
        check = workflow_runs.check_of(request, CheckState.NEUTRAL, ended_section(request, ending).facts.summary)
        notice = Notice(text=f"**Not judged.** {refusal}", head_sha=request.head_sha)
        tell(record, check, context.github, notice=notice)
    return f"{request.id}: refused: {refusal}"
