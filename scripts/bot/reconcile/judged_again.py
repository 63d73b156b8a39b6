"""Judgings that the bot requests by itself: a row's duel is due, or its time is provisional.  Pure.

    RowToJudge ── the newest request for the commit that was judged last ──▶ DueJudging ──▶ the same request once more

It does not matter whether the row's pull request has been merged, or its task has closed: the row counts.

A row takes first place only by winning a duel with its holder.  So a row that looks faster than the holder, but has not
dueled it, stays behind and is judged again:

    two challengers at once duel the same champion                  the second to arrive dueled a former champion
    two first entries at once                                       the second had no opponent
    a champion is removed, or is first with another file            challengers have dueled a file that is not first now

A provisional row cannot win a duel yet.  It is judged again when its machine has nothing else to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from scripts.github.pulls import ACTIONS_BOT
from scripts.ledger.ledger import RequestStatus
from scripts.ledger.request import Request
from scripts.standings.provisional import is_due
from scripts.standings.rows import DUEL_TRIES, Row
from scripts.standings.standings import Standings


@dataclass(frozen=True, kw_only=True)
class DueJudging:
    """A judging that is due; `last` is the newest request for the row's file.

    `reason` identifies it, so that it is requested no more than `tries` times.
    """

    last: Request
    reason: str
    tries: int = 1

    def is_of(self, request: Request) -> bool:
        """Whether a request judges the row's file on its board."""
        return self.last.series == request.series

    def request(self, now: datetime) -> Request:
        """The bot's request to judge the row's file again."""
        return self.last.again(asked_at=now, asked_by=ACTIONS_BOT.id, reason=self.reason)


@dataclass(frozen=True, kw_only=True)
class RowToJudge:
    """A row of a board whose file must be judged again, and why."""

    row: Row
    reason: str
    tries: int = 1

    @property
    def pull_request(self) -> int:
        """The one in which the row's file was last judged; 0 off GitHub."""
        return self.row.newest.submission.pull_request or 0

    def find_due(self, statuses: Iterable[RequestStatus]) -> DueJudging | None:
        """Its judging, from the newest request for the commit that was judged last; None without such a request."""
        newest = self.row.newest
        place = (newest.submission.pull_request, newest.submission.head_sha, newest.task, newest.gpu)
        asked = (
            one.request
            for one in statuses
            if one.request.is_ranked
            and (one.request.pull_request, one.request.head_sha, one.request.task, one.request.gpu) == place
        )
        last = max(asked, key=lambda request: request.attempt, default=None)
        return DueJudging(last=last, reason=self.reason, tries=self.tries) if last else None


def find_due_rows(tables: Iterable[Standings]) -> Iterator[RowToJudge]:
    """The rows of these boards that could be first, but have not dueled the champion."""
    for table in tables:
        if (champion := table.champion) and table.board.task.is_refereed:
            reason = f"its duel with {champion.login} ({champion.digest[:12]}) is due"
            # Only a duel can decide which of the two is first.
            rows = (row for row in table.rows if row.duel_status and not row.lost_duel)
            yield from (RowToJudge(row=row, reason=reason, tries=DUEL_TRIES) for row in rows)


def find_provisional_rows(tables: Iterable[Standings], now: datetime) -> list[RowToJudge]:
    """The provisional rows of these boards whose next judging is due, the one that waits longest first."""
    found = []
    for table in tables:
        for row in table.rows:
            if is_due(row, now):
                judged = len(row.judgements)
                reason = f"its time is provisional after {judged} judging{'' if judged == 1 else 's'}"
                found.append(RowToJudge(row=row, reason=reason))
    return sorted(found, key=lambda one: one.row.newest.finished_at)
