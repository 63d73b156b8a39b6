"""First places that need a maintainer's review and never had one.

`report` holds a judgement that takes first place with a time not good enough.  But a row can also come to lead because
the one before it was withdrawn, disqualified, or got slower.  Then the reconciler holds it.  Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from harness.records.judgement import Judgement
from scripts.bot.report.recording import find_doubt
from scripts.github.pulls import ACTIONS_BOT
from scripts.ledger.moderation import Action, Moderation, hold
from scripts.standings.standings import Standings


def find_holds(
    table: Standings, decisions: Iterable[Moderation], now: datetime
) -> Iterator[tuple[Judgement, Moderation]]:
    """A decision for each judgement of a board's first row, if there is no decision about any of them yet."""
    decided = {one.judgement for one in decisions if one.action is not Action.WITHDRAW}
    first = table.champion
    if not first or decided.intersection(one.checksum for one in first.judgements):
        return
    if doubt := find_doubt(first.newest, table.board):
        for one in first.judgements:
            yield one, hold(one, f"it would be first with a time {doubt}", by=ACTIONS_BOT.id, at=now)
