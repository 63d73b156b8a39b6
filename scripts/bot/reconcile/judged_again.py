"""Judgings that the bot requests by itself: a row's duel is due, or its time is provisional.

    RowToJudge ── the newest request for the commit that was judged last ──▶ DueJudging ──▶ the same request once more

It does not matter whether the row's pull request has been merged, or its task has closed: the row counts.  Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from harness.task.task import Board
from scripts.github.pulls import ACTIONS_BOT
from scripts.ledger.ledger import RequestStatus
from scripts.ledger.request import Request, make_id
from scripts.standings.rows import Row


@dataclass(frozen=True, kw_only=True)
class DueJudging:
    """A judging that is due; `last` is the newest request for the row's file.

    `reason` identifies it, so that it is requested only once.
    """

    last: Request
    reason: str

    def is_of(self, request: Request) -> bool:
        """Whether a request judges the row's file on its board."""
        ours, theirs = self.last, request
        return (ours.pull_request, ours.head_sha, ours.gpu, ours.mode) == (
            theirs.pull_request, theirs.head_sha, theirs.gpu, theirs.mode,
        )  # fmt: skip

    def request(self, now: datetime) -> Request:
        """The bot's request to judge the row's file again."""
        last = self.last
        again = make_id(last.pull_request, last.head_sha, last.gpu, last.mode, last.attempt + 1)
        changes = {"id": again, "asked_at": now, "asked_by": ACTIONS_BOT.id, "reason": self.reason}
        return last.model_copy(update=changes)


@dataclass(frozen=True, kw_only=True)
class RowToJudge:
    """A row of a board whose file must be judged again, and why."""

    board: Board
    row: Row
    reason: str

    @property
    def pull_request(self) -> int:
        """The one in which the row's file was last judged; 0 off GitHub."""
        return self.row.newest.submission.pull_request or 0

    def find_due(self, statuses: Iterable[RequestStatus]) -> DueJudging | None:
        """Its judging, from the newest request for the commit that was judged last; None without such a request."""
        of = self.row.newest.submission
        place = (of.pull_request, of.head_sha, self.board.task.name, self.board.gpu)
        asked = (
            one.request
            for one in statuses
            if one.request.is_ranked
            and (one.request.pull_request, one.request.head_sha, one.request.task, one.request.gpu) == place
        )
        last = max(asked, key=lambda request: request.attempt, default=None)
        return DueJudging(last=last, reason=self.reason) if last else None
