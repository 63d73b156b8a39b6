"""Duels that are due: of rows that look faster than first place, but have not dueled its current holder.

    two challengers at once duel the same champion                  the second to arrive dueled a former champion
    two first entries at once                                       the second had no opponent
    a champion is disqualified, or is first with another file       everybody who dueled it dueled a former champion

A row takes first place only by winning a duel with its holder, so such a row stays behind and is judged again.  A
provisional row cannot win it yet.  Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from scripts.bot.reconcile.judged_again import RowToJudge
from scripts.standings.rows import Row
from scripts.standings.standings import Standings


def find_due_rows(tables: Iterable[Standings]) -> Iterator[RowToJudge]:
    """The rows of these boards that could be first, but have not dueled the champion."""
    for table in tables:
        if (champion := table.champion) and table.board.task.is_refereed:
            reason = f"its duel with {champion.login} ({champion.digest[:12]}) is due"
            yield from (
                RowToJudge(board=table.board, row=row, reason=reason) for row in table.rows if is_due(row, champion)
            )


def is_due(row: Row, champion: Row) -> bool:
    """Whether only a duel can decide which of the two is first."""
    if row.champion or row.provisional or row.digest == champion.digest:
        return False
    if row.score_us.value >= champion.score_us.value:
        return False
    duels = [judgement.duel for judgement in row.judgements if judgement.duel]
    return not any(duel.opponent_digest == champion.digest and not duel.won for duel in duels)
