"""Duels that are due: of rows that look faster than first place, but have not dueled its current holder.

    two challengers at once duel the same champion                  the second to arrive dueled a former champion
    two first entries at once                                       the second had no opponent
    a champion is disqualified, or is first with another file       everybody who dueled it dueled a former champion

A row takes first place only by winning a duel with its holder, so such a row stays behind and is judged again.
It does not matter whether its pull request has been merged: the row counts.  Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from harness.task.task import Board
from scripts.github.pulls import ACTIONS_BOT
from scripts.ledger.ledger import RequestStatus
from scripts.ledger.request import Request, make_id
from scripts.standings.rows import Row
from scripts.standings.standings import Standings


@dataclass(frozen=True, kw_only=True)
class DueDuel:
    """`last` is the newest request for the row's file; `opponent` and `digest` are the champion's."""

    last: Request
    opponent: str
    digest: str

    @property
    def reason(self) -> str:
        """Identifies a rematch, so that it is requested only once."""
        return f"its duel with {self.opponent} ({self.digest[:12]}) is due"

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
class DueRow:
    """A row of a board whose file must duel the champion's."""

    board: Board
    row: Row
    champion: Row

    @property
    def pull_request(self) -> int:
        """The one in which the row's file was last judged; 0 off GitHub."""
        return self.row.judgements[-1].submission.pull_request or 0

    def find_duel(self, statuses: Iterable[RequestStatus]) -> DueDuel | None:
        """Its duel, from the newest request for the commit that was judged last; None if there is no such request."""
        of = self.row.judgements[-1].submission
        place = (of.pull_request, of.head_sha, self.board.task.name, self.board.gpu)
        asked = (
            one.request
            for one in statuses
            if one.request.is_ranked
            and (one.request.pull_request, one.request.head_sha, one.request.task, one.request.gpu) == place
        )
        last = max(asked, key=lambda request: request.attempt, default=None)
        return DueDuel(last=last, opponent=self.champion.login, digest=self.champion.digest) if last else None


def find_due_rows(tables: Iterable[Standings]) -> Iterator[DueRow]:
    """The rows of these boards that could be first, but have not dueled the champion."""
    for table in tables:
        if (champion := table.champion) and table.board.task.is_refereed:
            yield from (
                DueRow(board=table.board, row=row, champion=champion) for row in table.rows if is_due(row, champion)
            )


def is_due(row: Row, champion: Row) -> bool:
    """Whether only a duel can decide which of the two is first."""
    if row.champion or row.digest == champion.digest or row.score_us.value >= champion.score_us.value:
        return False
    duels = [judgement.duel for judgement in row.judgements if judgement.duel]
    return not any(duel.opponent_digest == champion.digest and not duel.won for duel in duels)
