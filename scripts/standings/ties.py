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
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from heapq import heappop, heappush
from itertools import chain
from typing import NamedTuple, Protocol, Self, TypeVar

from harness.records.stats import margin
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
    """An author's time for the order, in logarithms: its error, and the error that protects it from others."""

    author: AuthorFiles
    value: float
    error: float
    guard: float

    @classmethod
    def of(cls, author: AuthorFiles, least_us: float = 0.0) -> Self:
        """`least_us` is the champion's time: before a won duel, none counts as faster."""
        file = author.standing
        value = math.log(max(file.score_us.value, least_us))
        return cls(author, value, file.score_us.log_half_width, file.score_for_ties.log_half_width)

    @property
    def reach(self) -> float:
        """The lowest time that this one might beat; less by what rounding could cost."""
        return self.value + margin(self.error, 0.0) - 1e-12

    def beats(self, other: RankingTime) -> bool:
        return other.value - self.value >= margin(self.error, other.guard)


def are_ahead(places: Sequence[RankingTime], author: AuthorFiles | None) -> bool:
    """Whether each of these rows, at least one, is ahead of an author's, because it beats it or that one has no place.

    Each also beats all that the author's row beats: two margins together are wider than one.
    """
    if not author or author.standing.is_provisional:
        return bool(places)
    return bool(places) and all(one.beats(RankingTime.of(author)) for one in places)


def in_bands(authors: Iterable[AuthorFiles], champion: AuthorFiles | None) -> Iterator[tuple[int, AuthorFiles]]:
    """Authors in their order, each with the number of the band."""
    first = [RankingTime.of(champion)] if champion else []
    least_us = champion.standing.score_us.value if champion else 0.0
    rest = [author for author in authors if author is not champion]
    settled = [RankingTime.of(author, least_us) for author in rest if not author.standing.is_provisional]
    number, band, reach = 0, list[RankingTime](), 0.0
    for time in chain(first, in_order(settled)):
        if not band or (reach <= time.value and any(one.beats(time) for one in band)):
            number, band, reach = number + 1, [], math.inf
        band.append(time)
        reach = min(reach, time.reach)
        yield number, time.author
    provisional = (author for author in rest if author.standing.is_provisional)
    by_score = sorted(provisional, key=lambda one: (one.standing.score_us.value, one.standing.first_at))
    yield from enumerate(by_score, number + 1)


def in_order(times: Iterable[RankingTime]) -> Iterator[RankingTime]:
    """Always the earliest of the rest that none of the rest beats.

    A time waits for one at a time of those that beat it, the slowest first, so that each pair is compared once.
    """
    by_value = sorted(times, key=lambda one: one.value)
    values, reaches = [one.value for one in by_value], [one.reach for one in by_value]
    asked = [bisect_right(values, value - margin(0.0, 0.0) + 1e-12) for value in values]
    placed, fastest = [False] * len(values), 0
    waiting: defaultdict[int, list[int]] = defaultdict(list)
    ready: list[tuple[datetime, int]] = []

    def wait(number: int) -> None:
        time, value = by_value[number], values[number]
        for faster in range(asked[number] - 1, fastest - 1, -1):
            if reaches[faster] <= value and not placed[faster] and by_value[faster].beats(time):
                asked[number] = faster
                waiting[faster].append(number)
                return
        heappush(ready, (time.author.standing.first_at, number))

    for number in range(len(values)):
        wait(number)
    while ready:
        _, number = heappop(ready)
        placed[number] = True
        while fastest < len(placed) and placed[fastest]:
            fastest += 1
        yield by_value[number]
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
