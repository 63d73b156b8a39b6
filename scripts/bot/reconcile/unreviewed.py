"""First places that need a maintainer's review and never had one.

`report` holds a judgement that takes first place with a time not good enough.  But a row can also come to lead because
the one before it was withdrawn, disqualified, or got slower.  Then the reconciler holds it.  Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from scripts.bot.report.recording import find_doubt
from scripts.ledger.moderation import Action, Moderation
from scripts.standings.rows import Row
from scripts.standings.standings import Standings


def find_unreviewed(tables: Iterable[Standings], decisions: Iterable[Moderation]) -> Iterator[tuple[Row, str]]:
    """The first rows that need a review, each with the reason, if there is no decision about their judgements yet."""
    decided = {one.judgement for one in decisions if one.action is not Action.WITHDRAW}
    for table in tables:
        first = table.champion
        if not first or decided.intersection(one.checksum for one in first.judgements):
            continue
        if doubt := find_doubt(first.newest, table.board):
            yield first, f"it would be first with a time {doubt}"
