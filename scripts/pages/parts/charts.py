"""Strip charts of the samples of one benchmark: a line of dots per run, with median and interval; axes for all charts.

Both sides have the same magnification, on one axis (a duel) or on an axis each.  Pure geometry, in the units of an
SVG's view box.  Time axes are logarithmic: 10 % are as wide at 10 µs as at 10 ms.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise
from typing import NamedTuple

from harness.records.stats import Interval, median
from harness.records.times import Run
from scripts.common.text import format_us

STRIP_WIDTH = 360
GROUP_HEIGHT = 44
"""Height of a group's dots, for any number of runs."""

GROUP_PITCH = 98
"""Distance between groups: heading, dots, axis."""

MAX_DOTS_PER_RUN = 200
FENCE = 3.0
"""Interquartile ranges above the upper quartile at which an axis ends (Tukey's far fence).  Rare stalls reach a hundred
times the median; they are drawn at the edge and counted."""

MIN_SPAN = 1.06
"""An axis spans at least this ratio, so that noise looks like noise."""

_STEPS_BECOME_FACTORS, _FACTORS_BECOME_DECADES = 5, 100
"""An axis that spans the first ratio has at least two of 1, 2, 5, 10; the second, at least two powers of ten."""


class Tick(NamedTuple):
    at: float
    label: str
    align: str = "middle"


@dataclass(frozen=True, kw_only=True)
class StripGroup:
    """The runs of one side and their median."""

    label: str
    value: str
    top: float
    bottom: float
    dots: str
    median_x: float
    band: tuple[float, float] | None
    ticks: tuple[Tick, ...]


@dataclass(frozen=True, kw_only=True)
class Strip:
    """A strip chart, drawn by `site/templates/macros.html`."""

    title: str
    description: str
    width: int
    height: int
    groups: tuple[StripGroup, ...]


@dataclass(frozen=True)
class StripSide:
    """One side of a strip: its name, its runs and an interval to shade, if any.

    The interval may come from a ratio to the other side, scaled to a time.  The axis includes both.
    """

    label: str
    runs: Sequence[Run]
    interval: Interval | None = None

    @cached_property
    def samples(self) -> list[float]:
        return sorted(chain.from_iterable(run.samples_us for run in self.runs))

    @cached_property
    def time_us(self) -> float:
        return median([run.time_us for run in self.runs])

    @property
    def low(self) -> float:
        return min(self.samples[0], self.interval.low) if self.interval else self.samples[0]

    @property
    def high(self) -> float:
        """The largest sample, at most Tukey's far fence, or the upper end of the interval if that is larger."""
        samples = self.samples
        lower, upper = samples[len(samples) // 4], samples[3 * len(samples) // 4]
        fence = min(samples[-1], upper + FENCE * (upper - lower))
        return max(fence, self.interval.high) if self.interval else fence


@dataclass(frozen=True)
class Scale:
    """A logarithmic axis that maps `low` to `high` onto the pixels `start` to `end`."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        share = math.log(value / self.low) / self._width
        return self.start + min(max(share, 0.0), 1.0) * (self.end - self.start)

    @cached_property
    def _width(self) -> float:
        return math.log(self.high / self.low)


def strip(title: str, sides: Sequence[StripSide], *, one_axis: bool = False) -> Strip:
    """The samples of both sides at one magnification: on one axis, or each from its own fastest sample."""
    lows = [side.low for side in sides]
    highs = [side.high for side in sides]
    if one_axis:
        lows, highs = [min(lows)] * len(sides), [max(highs)] * len(sides)
    ratio = max(high / low for low, high in zip(lows, highs, strict=True))
    scales = [Scale(*span_of(low, low * ratio), 6, STRIP_WIDTH - 6) for low in lows]
    groups = tuple(
        _group(side, scale, top=20 + index * GROUP_PITCH)
        for index, (side, scale) in enumerate(zip(sides, scales, strict=True))
    )
    return Strip(
        title=title,
        description="; ".join(_describe(side, scale) for side, scale in zip(sides, scales, strict=True)),
        width=STRIP_WIDTH,
        height=GROUP_PITCH * len(sides) - 8,
        groups=groups,
    )


def _group(side: StripSide, scale: Scale, top: float) -> StripGroup:
    pitch = GROUP_HEIGHT / len(side.runs)
    return StripGroup(
        label=side.label,
        value=format_us(side.time_us),
        top=top,
        bottom=top + GROUP_HEIGHT,
        dots="".join(_dots(run.samples_us, scale, top + pitch * (row + 0.5)) for row, run in enumerate(side.runs)),
        median_x=scale(side.time_us),
        band=(scale(side.interval.low), scale(side.interval.high)) if side.interval else None,
        ticks=tuple(tick_at(value, scale) for value in round_values(scale.low, scale.high, 3)),
    )


def _dots(samples: Sequence[float], scale: Scale, y: float) -> str:
    """A line of dots as an SVG path; dots at the same tenth of a pixel become one.

    Samples beyond the axis are at its end.  Above `MAX_DOTS_PER_RUN`, they are thinned evenly by rank, which keeps the
    distribution and a small page.
    """
    shown = sorted(samples)[:: math.ceil(len(samples) / MAX_DOTS_PER_RUN)]
    places = sorted({round(10 * scale(sample)) for sample in shown})
    steps = "".join(f"m{(after - before) / 10:g} 0h0" for before, after in pairwise(places))
    return f"M{places[0] / 10:g} {y:.1f}h0{steps}"


def _describe(side: StripSide, scale: Scale) -> str:
    samples = side.samples
    beyond = len(samples) - bisect_right(samples, scale.high)
    text = f"{side.label}: {format_us(side.time_us)}, from {len(samples)} samples in {len(side.runs)} runs"
    text += f" between {format_us(samples[0])} and {format_us(samples[-1])}"
    return text + (f", {beyond} of them beyond the axis" if beyond else "")


def round_values(low: float, high: float, count: int) -> list[float]:
    """Round values in [low, high], at least two and at most `count`, which must be at least 3.

    The axis is logarithmic: a short one has even steps, a longer one 1, 2, 5, 10, the longest powers of ten.  If there
    are too many, every second, third and so on is used.
    """
    if high / low >= _STEPS_BECOME_FACTORS:
        digits = (1,) if high / low >= _FACTORS_BECOME_DECADES else (1, 2, 5)
        powers = range(math.floor(math.log10(low)), math.floor(math.log10(high)) + 1)
        values = [value for power in powers for digit in digits if low <= (value := digit * 10.0**power) <= high]
        return values[:: math.ceil(len(values) / count)]
    span = high - low
    power = 10.0 ** math.floor(math.log10(span / count))
    for factor in (1, 2, 2.5, 5, 10):  # Each is at most twice the one before, so at least two values remain.
        first, last = math.ceil(low / (power * factor)), math.floor(high / (power * factor))
        if last - first < count:
            break
    return [power * factor * index for index in range(first, last + 1)]


def tick_at(value: float, scale: Scale) -> Tick:
    at = scale(value)
    near_start, near_end = abs(at - scale.start) < 24, abs(at - scale.end) < 24
    amount, unit = format_us(value).split()
    label = f"{amount.rstrip('0').rstrip('.') if '.' in amount else amount} {unit}"
    return Tick(at=at, label=label, align="start" if near_start else "end" if near_end else "middle")


def span_of(low: float, high: float, margin: float = 1.01) -> tuple[float, float]:
    widen = max(margin, math.sqrt(MIN_SPAN / (high / low)))
    return low / widen, high * widen
