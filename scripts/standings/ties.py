"""Ties between rows.

`harness.records.stats.tied` decides whether two times tie.  A band is a group of rows that are tied with its best
row.  An earlier entry stays ahead of those that it ties with, and of no row that beats it: a wide interval can tie its
row with two that are not tied with each other.

An unproven row looks faster than the champion, but has not won their duel: it is in the champion's band, and tied with
none of its rows.  There, it passes none of the earlier ones.

A provisional row comes after all others, in a band of its own.  In its place by time, a wide interval would tie it with
many rows, and a lucky or forged estimate would push honest rows down.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Protocol, TypeVar

from harness.records.stats import beats
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
    """Authors in bands, the champion first, the others by score; in a band, the earlier file is first if none beats it.

    Provisional ones come last, by score.
    """
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
    return [_in_order(band, champion) for band in bands]


def _in_order(band: Sequence[AuthorFiles], champion: AuthorFiles | None) -> list[AuthorFiles]:
    """A band's authors, given by score: the champion, then always the earliest whom none of the rest beats."""
    by_date = sorted(band, key=lambda one: (one is not champion, one.standing.first_at))
    proven = [one for one in band if not beats(one.standing.score_us, band[0].standing.score_for_ties)]
    ahead: dict[AuthorFiles, set[AuthorFiles]] = {one: set() for one in band}
    for better, worse in combinations(proven, 2):
        if beats(better.standing.score_us, worse.standing.score_us):
            ahead[worse].add(better)
    ordered: dict[AuthorFiles, None] = {}
    while len(ordered) < len(band):
        ordered[next(one for one in by_date if one not in ordered and ahead[one] <= ordered.keys())] = None
    return [*ordered]


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
