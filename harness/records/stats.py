"""The statistics behind the ranking: medians, intervals, ties, duels.  Pure functions.

Times on real machines have heavy tails (a stall of 9 ms in a kernel of 100 µs), so nothing here uses a
plain mean of times or assumes a normal distribution.  One run gives one time, its tapered mean, and two runs played
side by side give one ratio.  The ratios of all pairs give an estimate with an interval (Hodges & Lehmann 1963: the
median of the averages of all pairs of log-ratios, with the interval of Wilcoxon's signed-rank test).  It needs
six pairs for 95 %, and is nearly as sharp as the t interval without its assumptions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from statistics import NormalDist, median
from typing import Annotated

from pydantic import Field, model_validator

from harness.records.fields import Model

CONFIDENCE = 0.95
MIN_PAIRS = 6
"""The smallest number of pairs whose signed-rank interval covers 95 %."""

STALL_TIMES, STALL_US = 10.0, 50_000.0
"""A call of a run stalls if it takes more than `STALL_TIMES` times the median, and over `STALL_US` longer than it."""
OUTER_WEIGHT = 0.1
"""The weight of a sample in the lowest or the highest fifth of a run; that of the others is 1."""
_EXACT_PAIRS = 64
"""Up to this many pairs, the signed-rank distribution is computed exactly, at cubic cost."""

DUEL_LOOKS = (8, 16, 32, 64)
"""Numbers of A-B-B-A blocks (one ratio each) after which a duel is evaluated, and ends if decided."""
DUE_BLOCKS = 32
"""A champion whose slow warm-ups would end an undecided duel before it has so many blocks loses."""
LONGEST_EXTENDED_DUEL_S = 900.0
"""No extension makes a duel longer than this.  What the champion's imports take beyond the challenger's does not count,
and neither do its warm-ups; each of the two may take as long again."""
RETRY_S = LONGEST_EXTENDED_DUEL_S / 3
"""A duel in which the champion's file fails is played once more, unless it has taken longer than this."""
DRAWN_OUT = 2
"""A duel that takes this many times as long as planned is stopped.  A side that drew it out has then taken more than
half of that time, and is to blame: otherwise a champion that is about to lose could make the duel void."""

TIE = 0.01
"""Differences below 1 % are ties, however narrow the intervals are."""
PROVISIONAL = 0.10
"""A score is provisional if its 95 % interval is wider than this: half its width, in logarithms."""

__all__ = [
    "CONFIDENCE", "DRAWN_OUT", "DUEL_LOOKS", "DUE_BLOCKS", "LONGEST_EXTENDED_DUEL_S", "MIN_PAIRS", "PROVISIONAL",
    "RETRY_S", "TIE", "Interval", "beats", "duel_interval", "fewest_blocks", "is_decided", "is_faster",
    "is_provisional", "is_won", "margin", "median", "ratio_interval", "score", "stalls", "tapered_mean", "tied",
    "trimmed_mean",
]  # fmt: skip


Bounded = Annotated[float, Field(ge=1e-30, le=1e30)]
"""A positive number whose products and quotients with a few others are still finite and positive."""


class Interval(Model):
    """An estimate and its 95 % interval; `low <= value <= high`, all positive."""

    value: Bounded
    low: Bounded
    high: Bounded

    @model_validator(mode="after")
    def _is_ordered(self) -> Interval:
        if not self.low <= self.value <= self.high:
            raise ValueError(f"an interval must be ordered, not {self.low}, {self.value}, {self.high}")
        return self

    @property
    def log_half_width(self) -> float:
        """Half the interval's width in logarithms: 0.01 reads as ±1 %."""
        return math.log(self.high / self.low) / 2

    def scaled(self, factor: float) -> Interval:
        return Interval(value=self.value * factor, low=self.low * factor, high=self.high * factor)

    @property
    def inverse(self) -> Interval:
        """B / A, if this is A / B."""
        return Interval(value=1 / self.value, low=1 / self.high, high=1 / self.low)


def tapered_mean(values: Sequence[float]) -> float:
    """A run's time: the mean of its samples, with a tenth of the weight for the lowest and the highest fifth.

    Every sample counts, so slow work in some calls cannot make the others faster for nothing: of ten samples, the
    slowest has a weight of 1/64, and all together take at most 64 times the run's time.

    So one sample can spoil a run: the breakdown point is 0.  That of the ratio is 29 % of the pairs, because it is a
    Hodges-Lehmann estimate.  A quarter would be too much where calls stall: if one call of twenty takes nine times as
    long, a file that is 10 % faster wins 69 % of its duels, and with a tenth 99 %.
    """
    ordered, fifth = sorted(values), len(values) // 5
    inner = ordered[fifth : len(ordered) - fifth]
    outer = ordered[:fifth] + ordered[len(ordered) - fifth :]
    return (sum(inner) + OUTER_WEIGHT * sum(outer)) / (len(inner) + OUTER_WEIGHT * len(outer))


def trimmed_mean(values: Sequence[float]) -> float:
    """The mean without the lowest and the highest fifth: the time of a run by methods 2 to 4."""
    fifth = len(values) // 5
    kept = sorted(values)[fifth : len(values) - fifth]
    return sum(kept) / len(kept)


def stalls(values: Sequence[float]) -> bool:
    """Whether a call of a run, in microseconds, takes so long that it is no noise."""
    middle = median(values)
    return max(values) > max(STALL_TIMES * middle, middle + STALL_US)


def ratio_interval(ratios: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """The Hodges-Lehmann estimate of positive ratios, with its interval, exact for up to `_EXACT_PAIRS`.

    With fewer than `MIN_PAIRS` ratios the interval is their whole range, and covers less than 95 %.
    """
    logs = sorted(math.log(ratio) for ratio in ratios)
    # Sorted logs yield sums in ascending runs, which `sorted` merges several times faster than random order.
    sums = sorted(a + b for i, a in enumerate(logs) for b in logs[i:])
    skip = _signed_rank_skip(len(logs), confidence)
    return Interval(value=math.exp(median(sums) / 2), low=math.exp(sums[skip] / 2), high=math.exp(sums[-1 - skip] / 2))


def duel_interval(ratios: Sequence[float], earlier: int = 0) -> Interval:
    """The interval of a duel's blocks, with an error of at most 5 % over all looks together.

    Each look gets its share of that error (Bonferroni), so looking more often does not make a false win more likely.
    After `earlier` duels without a result, by the same author against the same file, the error is divided by the square
    of `earlier` + 1: so duels that follow each other err in at most 8.3 % together.
    """
    return ratio_interval(ratios, 1 - _duel_error(earlier))


def fewest_blocks(earlier: int = 0) -> int:
    """The number of blocks below which no result of a duel reaches the confidence that it needs."""
    return max(DUEL_LOOKS[0], math.ceil(1 - math.log2(_duel_error(earlier))))


def _duel_error(earlier: int) -> float:
    return (1 - CONFIDENCE) / len(DUEL_LOOKS) / (earlier + 1) ** 2


@cache
def _signed_rank_skip(n: int, confidence: float = CONFIDENCE) -> int:
    """How many Walsh averages to drop at each end for an interval with at least this confidence."""
    if n > _EXACT_PAIRS:
        # Pooled judgements have hundreds of pairs.  The normal approximation is then off by at most one average,
        # and dropping one less keeps the interval conservative.
        deviation = math.sqrt(n * (n + 1) * (2 * n + 1) / 24)
        return math.floor(n * (n + 1) / 4 - NormalDist().inv_cdf((1 + confidence) / 2) * deviation) - 1
    counts = [1]  # counts[w]: subsets of the ranks 1..k with sum w
    for rank in range(1, n + 1):
        longer = counts + [0] * rank
        for w, count in enumerate(counts):
            longer[w + rank] += count
        counts = longer
    tail, skip = 0, 0
    for w, count in enumerate(counts):
        tail += count
        if 2 * tail > (1 - confidence) * 2**n:
            break
        skip = w
    return skip


def score(cases: Sequence[Interval], ranking_by: str) -> Interval:
    """Combine the times of all benchmarks into one: their `geom`etric mean, their `mean`, or the `last`.

    The cases' errors are independent, so half-widths add in quadrature (in logarithms for `geom`).
    """
    if ranking_by == "last":
        return cases[-1]
    if ranking_by == "geom":
        logs = [(math.log(c.value), math.log(c.value / c.low), math.log(c.high / c.value)) for c in cases]
        value, below, above = _mean_with_errors(logs)
        return Interval(value=math.exp(value), low=math.exp(value - below), high=math.exp(value + above))
    value, below, above = _mean_with_errors([(c.value, c.value - c.low, c.high - c.value) for c in cases])
    return Interval(value=value, low=value - below, high=value + above)


def _mean_with_errors(values: Sequence[tuple[float, float, float]]) -> tuple[float, float, float]:
    n = len(values)
    below = math.sqrt(sum(v[1] ** 2 for v in values)) / n
    above = math.sqrt(sum(v[2] ** 2 for v in values)) / n
    return sum(v[0] for v in values) / n, below, above


def tied(a: Interval, b: Interval) -> bool:
    """Whether two times differ by less than 1 %, or by less than their intervals can resolve."""
    return abs(math.log(a.value / b.value)) < margin(a.log_half_width, b.log_half_width)


def margin(error: float, other_error: float) -> float:
    """The smallest difference of two times that is no tie, in logarithms, as are their intervals' half-widths."""
    return max(math.log1p(TIE), math.hypot(error, other_error))


def beats(a: Interval, b: Interval) -> bool:
    """Whether time `a` is lower than time `b`, and not tied with it.

    For `b`, rankings take the narrowest interval that a file's time has had, so that noise does not protect it.
    """
    return a.value < b.value and not tied(a, b)


def is_provisional(score_us: Interval) -> bool:
    """Whether a file's score, pooled over all judgements of it, is too uncertain to take a place on a board.

    Judging the file again narrows the interval.
    """
    return score_us.log_half_width > PROVISIONAL


def is_faster(ratio: Interval) -> bool:
    """Whether challenger / champion excludes 1 and shows a gain of at least 1 %, as a won duel needs."""
    return ratio.high < 1 and ratio.value <= 1 - TIE


def is_won(ratio: Interval, blocks: int, earlier: int = 0) -> bool:
    """Whether a duel of so many blocks is won: challenger / champion is below 1, with the confidence that it needs."""
    return is_faster(ratio) and blocks >= fewest_blocks(earlier)


def is_decided(ratio: Interval) -> bool:
    """Whether a duel has an outcome: one side is faster, or neither is faster by 1 %."""
    return is_faster(ratio) or is_faster(ratio.inverse) or (ratio.low > 1 - TIE and ratio.inverse.low > 1 - TIE)
