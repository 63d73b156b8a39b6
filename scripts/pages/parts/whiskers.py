"""Small drawings of a table's times and intervals, one per row, on a shared axis.  Pure geometry."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from harness.records.stats import Interval
from scripts.pages.parts.charts import Scale, span_of

WHISKER_WIDTH = 132
_SHOWN = 0.8
"""The share of a table's rows that the axis covers; slower rows are drawn at its edge."""


@dataclass(frozen=True, kw_only=True)
class Whisker:
    """A time on the shared axis: `gap` is a line from first place's time to it, `path` is its interval.

    A time beyond the axis is an arrow at its end.
    """

    gap: str
    path: str
    beyond: bool


def whiskers(intervals: Sequence[Interval], settled: int | None = None) -> list[Whisker]:
    """One whisker per row, best rows first.

    Args:
        settled: how many rows the axis is made for, the first ones: one wide interval would squeeze all others.
    """
    if not intervals:
        return []
    highs = sorted(interval.high for interval in intervals[:settled])
    low, high = min(interval.low for interval in intervals[:settled]), highs[math.ceil(len(highs) * _SHOWN) - 1]
    scale = Scale(*span_of(low, max(high, low), 1.002), 4, WHISKER_WIDTH - 4)
    first = scale(intervals[0].value)
    return [_whisker(interval, scale, first) for interval in intervals]


def _whisker(interval: Interval, scale: Scale, first: float) -> Whisker:
    if interval.value > scale.high:
        end = scale.end - 2
        return Whisker(gap=f"M{first:.1f} 8H{end:.1f}", path=f"M{end - 4:.1f} 4l4 4-4 4", beyond=True)
    low, high, middle = scale(interval.low), scale(interval.high), scale(interval.value)
    return Whisker(gap=f"M{first:.1f} 8H{middle:.1f}", path=f"M{low:.1f} 8H{max(high, low + 0.1):.1f}", beyond=False)
