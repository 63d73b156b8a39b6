"""A board's best time over the season, one step per record; `site/templates/macros.html` draws it.

Pure geometry, in the units of an SVG's view box.  A step's name fits above the line to its right, or below the line to
its left.  A step where first place changed hands has a name, as long as names do not overlap.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from typing import NamedTuple

from scripts.common.text import format_us, shorten
from scripts.pages.parts.charts import Scale, Tick, round_values, span_of, tick_at
from scripts.pages.parts.words import count

FURTHEST_LIMIT = 3.0
"""The hardware's limit is drawn if the best time is at most this multiple of it; else it would flatten the steps."""

_LEFT = 62.0
_NAME_EVERY = 110
_LONGEST_NAME = 20
_LINE = 15.0
_BETWEEN_DATES = 72.0


@dataclass(frozen=True, kw_only=True)
class Best:
    """A point of a staircase: from `at` on, the best time was `us`."""

    at: datetime
    us: float
    name: str
    label: str
    href: str


class StepLabel(NamedTuple):
    """A step's name, its position, and which end of the text is there."""

    text: str
    x: float
    y: float
    align: str

    @property
    def left(self) -> float:
        return self.x - (_width(self.text) if self.align == "end" else 0)

    def touches(self, other: StepLabel) -> bool:
        first, second = sorted((self, other), key=lambda name: name.left)
        return second.left < first.left + _width(first.text) and abs(self.y - other.y) < _LINE


@dataclass(frozen=True, kw_only=True)
class StairStep:
    x: float
    y: float
    label: str
    href: str
    name: StepLabel | None = None


@dataclass(frozen=True, kw_only=True)
class Staircase:
    """A chart of records.  `floor` is the hardware's limit; None if it is unknown or too far away."""

    title: str
    description: str
    width: int
    height: int
    left: float
    right: float
    bottom: float
    path: str
    floor: StepLabel | None
    steps: tuple[StairStep, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]


def staircase(
    title: str, bests: Sequence[Best], until: datetime, *, width: int, height: int, floor_us: float | None = None
) -> Staircase:
    """The best time from the first record until the board's last judgement, above the hardware's limit."""
    left, right, top, bottom = _LEFT, width - 8.0, 14.0, height - 28.0
    fastest = min(best.us for best in bests)
    if floor_us and not fastest / FURTHEST_LIMIT <= floor_us <= fastest:
        floor_us = None
    low, high = span_of(floor_us or fastest, max(best.us for best in bests), margin=1.1)
    y = Scale(low, high, bottom, top)
    start, end = bests[0].at, max(until, bests[-1].at)
    seconds = (end - start).total_seconds() or 1.0

    def x(at: datetime) -> float:
        return left + (right - left) * (at - start).total_seconds() / seconds

    steps = [StairStep(x=x(best.at), y=y(best.us), label=best.label, href=best.href) for best in bests]
    floor = (
        StepLabel(f"hardware’s limit, {format_us(floor_us)}", left + 6, y(floor_us) - 6, "start") if floor_us else None
    )
    first, *later = steps
    records = count(len(later), "record", "records")
    path = f"M{first.x:.1f} {first.y:.1f}" + "".join(f"H{step.x:.1f}V{step.y:.1f}" for step in later) + f"H{right:.1f}"
    return Staircase(
        title=title,
        description=f"From {format_us(bests[0].us)} to {format_us(bests[-1].us)} in {records}."
        + (f" The hardware’s limit is {format_us(floor_us)}." if floor_us else ""),
        width=width,
        height=height,
        left=left,
        right=right,
        bottom=bottom,
        path=path,
        floor=floor,
        steps=tuple(_named(steps, bests, floor, right)),
        x_ticks=tuple(_date_ticks(start, end, left, right)),
        y_ticks=tuple(tick_at(value, y) for value in round_values(low, high, 4)),
    )


def _named(
    steps: Sequence[StairStep], bests: Sequence[Best], floor: StepLabel | None, right: float
) -> Iterator[StairStep]:
    """The steps, named where the holder changed: the current holder first, then the largest gains, if they fit."""
    pairs = list(pairwise(bests))
    gains = {0: 0.0} | {n: math.log(old.us / new.us) for n, (old, new) in enumerate(pairs, 1) if new.name != old.name}
    gains[max(gains)] = math.inf
    taken = [floor] if floor else []
    names: dict[int, StepLabel] = {}
    for index in sorted(gains, key=lambda index: -gains[index]):
        places = _places(steps[index], shorten(bests[index].name, _LONGEST_NAME), right)
        name = next((one for one in places if not any(one.touches(other) for other in taken)), None)
        if name and len(names) < right // _NAME_EVERY:
            names[index] = name
            taken.append(name)
    return (replace(step, name=names.get(index)) for index, step in enumerate(steps))


def _places(step: StairStep, text: str, right: float) -> Iterator[StepLabel]:
    """Positions for a step's name: above it to its right, or below it to its left, where no other step can be."""
    if step.x + 9 + _width(text) <= right:
        yield StepLabel(text, step.x + 9, step.y - 6, "start")
    if step.x - 7 - _width(text) >= _LEFT:
        yield StepLabel(text, step.x - 7, step.y + 14, "end")


def _width(text: str) -> float:
    """The approximate width of a text at 12 pixels."""
    return 6.8 * len(text)


def _date_ticks(start: datetime, end: datetime, left: float, right: float) -> Iterator[Tick]:
    """The first and the last date, and the months between them where they fit."""
    hours = (end - start).total_seconds() / 3600
    pattern = "%H:%M:%S" if hours < 1 else "%H:%M" if hours < 36 else "%-d %b" if hours < 24 * 300 else "%b %Y"
    first, last = start.strftime(pattern), end.strftime(pattern)
    yield Tick(at=left, label=first, align="start")
    latest = left
    for month in _months(start, end):
        at = left + (right - left) * (month - start) / (end - start)
        if latest + _BETWEEN_DATES <= at <= right - _BETWEEN_DATES:
            yield Tick(at=at, label=f"{month:%b}" if month.month > 1 else f"{month:%Y}")
            latest = at
    if first != last:
        yield Tick(at=right, label=last, align="end")


def _months(start: datetime, end: datetime) -> Iterator[datetime]:
    """The starts of the months between two dates."""
    month = start.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    while (month := month.replace(year=month.year + month.month // 12, month=month.month % 12 + 1)) < end:
        yield month
