"""Provisional rows that are due to be judged again, when their machine has nothing else to do.  Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from scripts.bot.reconcile.judged_again import RowToJudge
from scripts.standings.provisional import is_due
from scripts.standings.standings import Standings


def find_provisional_rows(tables: Iterable[Standings], now: datetime) -> list[RowToJudge]:
    """The rows of these boards whose next judging is due, the one that waits longest first."""
    found = [
        RowToJudge(board=table.board, row=row, reason=_reason(len(row.judgements)))
        for table in tables
        for row in table.rows
        if is_due(row, now)
    ]
    return sorted(found, key=lambda one: one.row.newest.finished_at)


def _reason(judged: int) -> str:
    return f"its time is provisional after {judged} judging{'' if judged == 1 else 's'}"
