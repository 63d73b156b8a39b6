"""Ties between rows.

`harness.records.stats.tied` decides whether two times tie.  A band is a group of rows that are tied with its best
row.  In a band, the next row is always the earliest that none of the rest beats.  A wide interval can tie its row with
two that are not tied with each other, so a row may wait behind a later one with which it ties.

An unproven row looks faster than the champion, but has not won their duel: it is in the champion's band, and tied with
none of its rows.  There, it passes none of the earlier ones.

A provisional row comes after all others, in a band of its own.  In its place by time, a wide interval would tie it with
many rows, and a lucky or forged estimate would push honest rows down.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

from harness.records.stats import TIE, Interval, beats
from scripts.standings.author_files import AuthorFiles


class Banded(Protocol):
    """A row in a band: from here, or from a published site."""

    @property
    def rank(self) -> int: ...

    @property
    def band(self) -> int: ...

    @property
    def unproven(self) -> bool: ...

    @property
    def provisional(self) -> bool: ...


B = TypeVar("B", bound=Banded)


def bands_of(authors: Iterable[AuthorFiles], champion: AuthorFiles | None) -> list[list[AuthorFiles]]:
    """Authors in bands and by score, the champion first, provisional ones last."""
    by_score = sorted(
        authors,
        key=lambda one: (
            one is not champion,
            one.standing.is_provisional,
            one.standing.score_us.value,
            one.standing.first_at,
        ),
    )
    bands: list[list[AuthorFiles]] = []
    for author in by_score:
        is_alone = author.standing.is_provisional and author is not champion
        if bands and not is_alone and not beats(bands[-1][0].standing.score_for_ties, author.standing.score_us):
            bands[-1].append(author)
        else:
            bands.append([author])
    return bands


def in_order(band: Sequence[AuthorFiles], champion: AuthorFiles | None) -> Iterator[AuthorFiles]:
    """A band's authors, given by score: the champion, then always the earliest whom none of the rest beats.

    An author waits for one at a time of those who beat them, so that each pair is compared once.
    """
    waiting = sorted(band, key=lambda one: (one is not champion, one.standing.first_at))
    unproven = {one for one in band if beats(one.standing.score_us, band[0].standing.score_for_ties)}
    proven = sorted((one for one in band if one not in unproven), key=lambda one: one.standing.score_us.value)
    scores_us = [one.standing.score_us for one in proven]
    values_us, reach_us = [one.value for one in scores_us], [*map(_reach_us, scores_us)]
    asked, placed = dict.fromkeys(band, 0), set[AuthorFiles]()

    def must_wait(author: AuthorFiles) -> bool:
        score_us, number = author.standing.score_us, asked[author]
        value_us = score_us.value
        while number < len(proven) and values_us[number] < value_us:
            may_beat = reach_us[number] <= value_us and proven[number] not in placed
            if may_beat and beats(scores_us[number], score_us):
                asked[author] = number
                return True
            number += 1
        asked[author] = len(proven)
        return False

    while waiting:
        first = waiting[0]
        rest = (one for one in waiting if one not in unproven and not must_wait(one))
        author = first if first in unproven else next(rest)
        waiting.remove(author)
        placed.add(author)
        yield author


def _reach_us(score_us: Interval) -> float:
    """The lowest time that this one might beat, without the other's interval."""
    return score_us.value * max(1 + TIE, math.exp(score_us.log_half_width)) * (1 - 1e-9)


def are_tied(one: Banded, other: Banded) -> bool:
    return one.band == other.band and not (one.unproven or other.unproven)


def tied_ranks(rows: Sequence[Banded]) -> frozenset[int]:
    """The ranks of all rows that are tied with another."""
    sizes = Counter(row.band for row in rows if not row.unproven)
    return frozenset(row.rank for row in rows if sizes[row.band] > 1 and not row.unproven)


def ahead_of(row: Banded, rows: Sequence[B]) -> B | None:
    """The row to beat next, the last one of a better band; None for rows of the first band.

    Skips rows that only look faster than the champion: they have yet to win their duel.  A provisional row has none: it
    must be judged again first.
    """
    if row.provisional:
        return None
    return next((other for other in reversed(rows) if other.band < row.band and not other.unproven), None)
