"""The order of rows, and ties between them.

The champion is first.  The next row is always the earliest that none of the rest beats (`harness.records.stats.beats`).
So no row is behind one that it beats.  A band is a group of rows in that order of which none beats another: they are
tied with each other.  A row may also tie with rows of other bands, since ties are not transitive.

A slower or wider time never improves a row's place.  A wider interval makes it harder to beat others, and not harder to
be beaten: that depends on the narrowest interval that the time has had.

An unproven row looks faster than the champion, but has not won their duel.  It ranks as if its time were the
champion's, and is not marked as tied.

A provisional row comes after all others, in a band of its own.  In its place by time, a wide interval would tie it with
many rows, and a lucky or forged estimate would push honest rows down.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from heapq import heappop, heappush
from itertools import chain
from typing import NamedTuple, Protocol, Self, TypeVar

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


class RankingTime(NamedTuple):
    """An author with the time that counts for their place, and the one that others must beat."""

    author: AuthorFiles
    time_us: Interval
    to_beat_us: Interval

    @classmethod
    def of(cls, author: AuthorFiles, least_us: float = 0.0) -> Self:
        """`least_us` is the champion's time: before a won duel, none counts as faster."""
        file = author.standing
        factor = max(1.0, least_us / file.score_us.value)
        if factor == 1:
            return cls(author, file.score_us, file.score_for_ties)
        return cls(author, file.score_us.scaled(factor), file.score_for_ties.scaled(factor))

    @property
    def first_at(self) -> datetime:
        return self.author.standing.first_at

    @property
    def reach_us(self) -> float:
        """The lowest time that this one might beat, without the other's interval."""
        return self.time_us.value * max(1 + TIE, math.exp(self.time_us.log_half_width)) * (1 - 1e-9)

    def beats(self, other: RankingTime) -> bool:
        return beats(self.time_us, other.to_beat_us)


def in_bands(authors: Iterable[AuthorFiles], champion: AuthorFiles | None) -> Iterator[tuple[int, AuthorFiles]]:
    """Authors in their order, each with the number of the band."""
    first = [RankingTime.of(champion)] if champion else []
    least_us = champion.standing.score_us.value if champion else 0.0
    rest = [RankingTime.of(author, least_us) for author in authors if author is not champion]
    number, band, reach_us = 0, list[RankingTime](), 0.0
    for entry in chain(first, in_order(one for one in rest if not one.author.standing.is_provisional)):
        if not band or (reach_us <= entry.to_beat_us.value and any(one.beats(entry) for one in band)):
            number, band, reach_us = number + 1, [], math.inf
        band.append(entry)
        reach_us = min(reach_us, entry.reach_us)
        yield number, entry.author
    provisional = (one.author for one in rest if one.author.standing.is_provisional)
    by_score = sorted(provisional, key=lambda one: (one.standing.score_us.value, one.standing.first_at))
    yield from enumerate(by_score, number + 1)


def in_order(entries: Iterable[RankingTime]) -> Iterator[RankingTime]:
    """Always the earliest of the rest that none of the rest beats.

    An entry waits for one at a time of those that beat it, the slowest first, so that each pair is compared once.
    """
    by_time = sorted(entries, key=lambda one: one.time_us.value)
    values_us, reaches_us = [one.time_us.value for one in by_time], [one.reach_us for one in by_time]
    asked, placed, fastest = [*range(len(by_time))], [False] * len(by_time), 0
    waiting: defaultdict[int, list[int]] = defaultdict(list)
    ready: list[tuple[datetime, int]] = []

    def wait(number: int) -> None:
        entry, value_us = by_time[number], values_us[number]
        for faster in range(asked[number] - 1, fastest - 1, -1):
            if reaches_us[faster] <= value_us and not placed[faster] and by_time[faster].beats(entry):
                asked[number] = faster
                waiting[faster].append(number)
                return
        heappush(ready, (entry.first_at, number))

    for number in asked[:]:
        wait(number)
    while ready:
        _, number = heappop(ready)
        placed[number] = True
        while fastest < len(placed) and placed[fastest]:
            fastest += 1
        yield by_time[number]
        for slower in waiting.pop(number, ()):
            wait(slower)


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
