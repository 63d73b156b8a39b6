"""Duels that are due: rows that look faster than the first place, and have not been dueled with who holds it now.

    two challengers at once, both dueled with the same champion     the second to arrive was dueled with a former one
    two first entries at once                                       the second was dueled with nobody
    a champion is disqualified, or is first with another file       so were all who had been dueled with it

Nobody takes first place without having won a duel with its holder, so such a row waits behind, and is judged once more.
Whether its pull request was merged meanwhile makes no difference: the row stands.  Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from scripts.ledger import RequestStatus
from scripts.pulls import ACTIONS_BOT
from scripts.request import Request, make_id
from scripts.standings import Row, Standings


@dataclass(frozen=True, kw_only=True)
class DueDuel:
    """`last` is the newest request of the row's file; opponent and digest are the champion's."""

    last: Request
    opponent: str
    digest: str

    @property
    def reason(self) -> str:
        """By which a rematch is known, so that it is asked for once."""
        return f"its duel with {self.opponent} ({self.digest[:12]}) is due"

    def is_of(self, request: Request) -> bool:
        """Whether a request judges the row's file on its board."""
        ours, theirs = self.last, request
        return (ours.pull_request, ours.head_sha, ours.gpu, ours.mode) == (
            theirs.pull_request, theirs.head_sha, theirs.gpu, theirs.mode,
        )  # fmt: skip

    def request(self, now: datetime) -> Request:
        """The row's file once more, as the bot asks for it."""
        last = self.last
        again = make_id(last.pull_request, last.head_sha, last.gpu, last.mode, last.attempt + 1)
        changes = {"id": again, "asked_at": now, "asked_by": ACTIONS_BOT.id, "reason": self.reason}
        return last.model_copy(update=changes)


def find_due_duels(tables: Iterable[Standings], statuses: Sequence[RequestStatus]) -> Iterator[DueDuel]:
    """The duels that are due on these boards, of files that the ledger has a request of."""
    for table in tables:
        for row in table.rows:
            last = _last_request(row, table, statuses)
            if last and (champion := table.champion) and is_due(row, champion):
                yield DueDuel(last=last, opponent=champion.login, digest=champion.digest)


def is_due(row: Row, champion: Row) -> bool:
    """Whether only a duel can say which of the two is first."""
    if row.champion or row.digest == champion.digest or row.score_us.value >= champion.score_us.value:
        return False
    duels = [judgement.duel for judgement in row.judgements if judgement.duel]
    return not any(duel.opponent_digest == champion.digest and not duel.won for duel in duels)


def _last_request(row: Row, table: Standings, statuses: Iterable[RequestStatus]) -> Request | None:
    """The newest request for the commit that the row's newest judgement is of."""
    of = row.judgements[-1].submission
    place = (of.pull_request, of.head_sha, table.board.task.name, table.board.gpu)
    asked = (
        one.request
        for one in statuses
        if one.request.is_ranked
        and (one.request.pull_request, one.request.head_sha, one.request.task, one.request.gpu) == place
    )
    return max(asked, key=lambda request: request.attempt, default=None)
