"""Provisional rows that are judged again: at most three times by themselves, when their machine has nothing else to do.

    judged once ──1 h──▶ twice ──6 h──▶ three times ──24 h──▶ four times: now it is up to its author

Each judging is pooled with those before it, and so narrows the interval.  The pauses grow, because a machine that is
busy now may be quiet later.  Judgings that people request count, too.  Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from harness.records.stats import is_provisional
from scripts.bot.reconcile.judged_again import RowToJudge
from scripts.standings.rows import Row
from scripts.standings.standings import Standings

PAUSES = tuple(timedelta(hours=hours) for hours in (1, 6, 24))
"""The time from a file's first judging to the second, and so on.

All are shorter than `plan.LOOK_BACK`: the reconciler reads the boards that were judged since then.
"""


def find_provisional_rows(tables: Iterable[Standings], now: datetime) -> list[RowToJudge]:
    """The rows of these boards whose next judging is due, the one that waits longest first."""
    found = [
        RowToJudge(board=table.board, row=row, reason=_reason(len(row.judgements)))
        for table in tables
        for row in table.rows
        if is_due(row, now)
    ]
    return sorted(found, key=lambda one: one.row.newest.finished_at)


def is_due(row: Row, now: datetime) -> bool:
    """Whether a row's file must be judged again; the champion's, too, if judging again has widened its interval."""
    judged = len(row.judgements)
    is_wide = is_provisional(row.score_us) and judged <= len(PAUSES)
    return is_wide and row.newest.finished_at + PAUSES[judged - 1] <= now


def _reason(judged: int) -> str:
    return f"its time is provisional after {judged} judging{'' if judged == 1 else 's'}"
