"""When a provisional file is judged again by itself, and how its row is explained.  Pure.

    judged once ──1 h──▶ twice ──6 h──▶ three times ──24 h──▶ four times: now it is up to its author

Each judging is pooled with those before it, and so narrows the interval.  The pauses grow, because a machine that is
busy now may be quiet later.  Judgings that people request count, too.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from harness.records.stats import PROVISIONAL, Interval, is_provisional
from scripts.common.text import format_error
from scripts.standings.rows import Row

PAUSES = tuple(timedelta(hours=hours) for hours in (1, 6, 24))
"""The time from a file's first judging to the second, and so on.

All are shorter than the reconciler's `LOOK_BACK`: it reads the boards that were judged since then.
"""


def is_due(row: Row, now: datetime) -> bool:
    """Whether a row's file must be judged again; the champion's, too, if judging again has widened its interval."""
    judged = len(row.judgements)
    is_wide = is_provisional(row.score_us) and is_judged_again(judged)
    return is_wide and row.newest.finished_at + PAUSES[judged - 1] <= now


def is_judged_again(judged: int) -> bool:
    """Whether the bot judges a provisional file again that was judged so often."""
    return judged <= len(PAUSES)


def provisional_sentence(score_us: Interval, judged: int, *, is_judged: bool = True) -> str:
    """Why a row is provisional, and until when.

    Args:
        judged: how often its file was judged.
        is_judged: whether a machine judges its board now.
    """
    until = f"Until another judging narrows it to ±{100 * PROVISIONAL:g} %, it cannot take first place."
    if is_judged and is_judged_again(judged):
        until = "The judge measures it again when the machine is idle. Until then it cannot take first place."
    return f"The 95 % interval of this time is {format_error(score_us)}. {until}"
