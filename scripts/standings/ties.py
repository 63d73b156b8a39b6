"""Ties between rows.

`harness.records.stats.tied` decides whether two times tie.  A band is a group of rows that are tied with its best
row.  An unproven row looks faster than the champion, but has not won their duel: it is in the champion's band, and tied
with none of its rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
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


B = TypeVar("B", bound=Banded)


def bands_of(authors: Iterable[AuthorFiles], champion: AuthorFiles) -> list[list[AuthorFiles]]:
    """Authors in bands, the champion first, the others by score; in a band, the earlier file is first."""
    by_score = sorted(
        authors,
        key=lambda one: (one is not champion, one.standing.score_us.value, one.standing.first_at),
    )
    bands: list[list[AuthorFiles]] = []
    for author in by_score:
        if bands and not beats(bands[-1][0].standing.score_us, author.standing.score_us):
            bands[-1].append(author)
        else:
            bands.append([author])
    return [sorted(band, key=lambda one: (one is not champion, one.standing.first_at)) for band in bands]


def are_tied(one: Banded, other: Banded) -> bool:
    return one.band == other.band and not (one.unproven or other.unproven)


def tied_ranks(rows: Sequence[Banded]) -> frozenset[int]:
    """The ranks of all rows that are tied with another."""
    sizes = Counter(row.band for row in rows if not row.unproven)
    return frozenset(row.rank for row in rows if sizes[row.band] > 1 and not row.unproven)


def leader_of(row: Banded, rows: Sequence[B]) -> B:
    """The first row in a row's band."""
    return next(other for other in rows if other.band == row.band)


def ahead_of(row: Banded, rows: Sequence[B]) -> B | None:
    """The row to beat next, the last one of a better band; None for rows of the first band.

    Skips rows that only look faster than the champion: they have yet to win their duel.
    """
    return next((other for other in reversed(rows) if other.band < row.band and not other.unproven), None)
