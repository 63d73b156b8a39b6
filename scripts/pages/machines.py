"""The page of the machines that judge: their software, their speed over time, and how often they were slow or busy.

    judgement  ─▶  Reading: the anchor's time over its usual time on that board, the geometric mean of all benchmarks
    readings of one machine  ─▶  Runner: pace, spread, drift, how often slow, busy or throttled

The anchor never changes, so a change of its time is a change of the machine.  Self-timed boards have no anchor: their
judgings say which software a machine has, not how fast it is.  A machine is identified by what it reports (device,
processor, cores); two machines that report the same count as one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import pairwise
from operator import attrgetter
from statistics import geometric_mean
from typing import Any, NamedTuple

from harness.records.judgement import Judgement
from harness.records.stats import median
from scripts.pages.parts.charts import Scale, Tick
from scripts.pages.parts.render import data, page
from scripts.pages.parts.site import Site
from scripts.pages.parts.words import day
from scripts.standings.standings import Standings

PATH = "machines/index.html"
SLOW = 1.05
"""A reading is slow above this multiple of the machine's pace."""
HELD_BACK = 0.9
"""The clock is throttled below this share of the highest clock seen: by heat, power or a setting."""
FEWEST_FOR_DRIFT = 20

MOST_READINGS = 400
"""Readings of one machine in the chart and in the JSON."""

_STRETCHES = 24
_WIDTH, _TOP, _BOTTOM = 1000, 8.0, 158.0


class Point(NamedTuple):
    """A judging in the chart: when it ended, and the anchor's time over its usual time."""

    at: datetime
    share: float


class Reading(NamedTuple):
    """The machine during one judging.  `share` is the anchor's time over its usual time; None on self-timed boards."""

    at: datetime
    gpu: str
    name: tuple[str, str, int]
    share: float | None
    clock_mhz: float | None
    temperature_c: float | None
    quiet: bool
    software: Mapping[str, str] | None
    """In the newest reading of a machine on each board; None in the others."""

    @property
    def facts(self) -> dict[str, Any]:
        return {
            "at": self.at.isoformat(),
            "share": self.share,
            "clock_mhz": self.clock_mhz,
            "temperature_c": self.temperature_c,
            "quiet": self.quiet,
        }


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """A chart of readings: `dots` and the `path` of their medians, from the first of its `dates` to the last.

    x is in thousandths of the chart's width, y in pixels: the chart fits every screen, its text keeps its size.
    """

    description: str
    dots: str
    path: str
    ticks: tuple[Tick, ...]
    dates: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Runner:
    """A machine and its readings, oldest first.

    What needs an anchor is None if the machine has judged only self-timed boards, `drift` also if it judged too rarely.
    """

    gpu: str
    device: str
    cpu: str
    cores: int
    readings: tuple[Reading, ...]

    @cached_property
    def points(self) -> list[Point]:
        """Of the judgings with an anchor."""
        return [Point(one.at, one.share) for one in self.readings if one.share is not None]

    @property
    def shares(self) -> list[float]:
        return [one.share for one in self.points]

    @cached_property
    def pace(self) -> float | None:
        return median(self.shares) if self.shares else None

    @cached_property
    def spread(self) -> float | None:
        """The interquartile range of all shares, as a share of the pace."""
        shares = sorted(self.shares)
        return (shares[3 * len(shares) // 4] - shares[len(shares) // 4]) / self.pace if self.pace else None

    @cached_property
    def drift(self) -> float | None:
        """How much slower the last fifth of the judgings is than the first fifth, as a share."""
        fifth = len(self.shares) // 5
        if len(self.shares) < FEWEST_FOR_DRIFT:
            return None
        return median(self.shares[-fifth:]) / median(self.shares[:fifth]) - 1

    @property
    def software(self) -> Mapping[str, str]:
        """What it had in its last judging, by name."""
        return next((one.software for one in reversed(self.readings) if one.software is not None), {})

    @property
    def slow(self) -> float | None:
        pace = self.pace
        return _share(share > SLOW * pace for share in self.shares) if pace else None

    @property
    def busy(self) -> float:
        return _share(not one.quiet for one in self.readings)

    @cached_property
    def clocks(self) -> list[float]:
        return [one.clock_mhz for one in self.readings if one.clock_mhz is not None]

    @property
    def held_back(self) -> float | None:
        fastest = max(self.clocks, default=0.0)
        return _share(clock < HELD_BACK * fastest for clock in self.clocks) if self.clocks else None

    @cached_property
    def temperatures(self) -> list[float]:
        return [one.temperature_c for one in self.readings if one.temperature_c is not None]

    @property
    def facts(self) -> dict[str, Any]:
        return {
            "gpu": self.gpu,
            "device": self.device,
            "cpu": self.cpu,
            "cores": self.cores,
            "judgings": len(self.readings),
            "last_at": self.readings[-1].at.isoformat(),
            "software": {**self.software},
            "pace": self.pace,
            "spread": self.spread,
            "drift": self.drift,
            "slow": self.slow,
            "busy": self.busy,
            "held_back": self.held_back,
            "clock_mhz": _range(self.clocks),
            "temperature_c": _range(self.temperatures),
            "readings": [one.facts for one in self.readings[:: _step(len(self.readings))]],
        }


def readings_of(table: Standings, judgements: Sequence[Judgement]) -> list[Reading]:
    """One reading for each judgement of the board's current edition that has the times of all benchmarks.

    Args:
        judgements: of this board, in ledger order.
    """
    found: list[Reading] = []
    seen: set[tuple[str, str, int]] = set()
    for judgement in reversed(judgements):
        anchors = [case.timing.anchor_us for case in judgement.benchmarks if case.timing]
        is_anchored = bool(table.nominal_us) and len(anchors) == len(table.nominal_us)
        is_self_timed = bool(judgement.benchmarks) and all(case.told for case in judgement.benchmarks)
        if judgement.edition == table.board.edition and (is_anchored or is_self_timed):
            machine = judgement.machine
            name = machine.device, machine.cpu, machine.cores
            shares = [us / usual for us, usual in zip(anchors, table.nominal_us, strict=True)] if is_anchored else []
            reading = Reading(
                at=judgement.finished_at,
                gpu=judgement.gpu,
                name=name,
                share=geometric_mean(shares) if shares else None,
                clock_mhz=machine.clock_mhz,
                temperature_c=machine.temperature_c,
                quiet=machine.quiet,
                software=None if name in seen else machine.versions,
            )
            found.append(reading)
            seen.add(name)
    return found[::-1]


def machine_pages(site: Site, readings: Sequence[Reading], as_of: datetime | None) -> Iterator[tuple[str, str]]:
    """The page of all machines, and its JSON."""
    runners = runners_of(readings)
    shown = [(runner, _timeline(runner)) for runner in runners]
    yield page("machines.html", PATH, site=site, runners=shown, as_of=as_of, slow=SLOW - 1, held_back=HELD_BACK)
    yield data("machines/machines.json", {"machines": [runner.facts for runner in runners]})


def runners_of(readings: Sequence[Reading]) -> list[Runner]:
    """Machines, grouped by GPU, the busiest first."""
    found: dict[tuple[str, tuple[str, str, int]], list[Reading]] = {}
    for reading in readings:
        found.setdefault((reading.gpu, reading.name), []).append(reading)
    runners = [
        Runner(gpu=gpu, device=name[0], cpu=name[1], cores=name[2], readings=tuple(sorted(ours, key=attrgetter("at"))))
        for (gpu, name), ours in found.items()
    ]
    return sorted(runners, key=lambda one: (one.gpu, -len(one.readings), one.device, one.cpu, one.cores))


def _timeline(runner: Runner) -> Timeline | None:
    """None if the machine has judged only self-timed boards."""
    points = runner.points
    if not points:
        return None
    shares = sorted(runner.shares)
    low, high = min(shares[len(shares) // 50], 0.97), max(shares[-1 - len(shares) // 50], 1.03)
    y = Scale(low / 1.005, high * 1.005, _BOTTOM, _TOP)
    start, seconds = points[0].at, (points[-1].at - points[0].at).total_seconds() or 1.0

    def x(at: datetime) -> float:
        return _WIDTH * (at - start).total_seconds() / seconds

    dots = (f"M{x(one.at):.0f} {y(one.share):.0f}h0" for one in points[:: _step(len(points))])
    return Timeline(
        description=f"{len(points)} judgings; the anchor took {shares[0]:.2f} to {shares[-1]:.2f} of its usual time.",
        dots="".join(dict.fromkeys(dots)),
        path="M" + "L".join(f"{x(at):.1f} {y(share):.1f}" for at, share in _medians(points)),
        ticks=tuple(Tick(at=y(share), label=_label(share)) for share in _round_shares(low, high)),
        dates=tuple(dict.fromkeys(day(one.at) for one in (points[0], points[-1]))),
    )


def _label(share: float) -> str:
    return "usual" if abs(share - 1) < 1e-9 else f"{share - 1:+.0%}".replace("%", " %").replace("-", "−")


def _medians(points: Sequence[Point]) -> list[Point]:
    """The median of each of `_STRETCHES` groups of equally many points."""
    edges = [round(index * len(points) / _STRETCHES) for index in range(_STRETCHES + 1)]
    stretches = [points[a:b] for a, b in pairwise(edges) if b > a]
    return [Point(part[len(part) // 2].at, median([one.share for one in part])) for part in stretches]


def _step(count: int) -> int:
    """The step of a slice that keeps at most `MOST_READINGS` of `count` readings."""
    return math.ceil(count / MOST_READINGS)


def _round_shares(low: float, high: float) -> list[float]:
    """A few round shares for the axis; 1 is one of them."""
    step = next((step for step in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 5) if (high - low) / step <= 6), 50)
    return [1 + k * step for k in range(math.ceil((low - 1) / step), math.floor((high - 1) / step) + 1)]


def _range(values: Sequence[float]) -> dict[str, float] | None:
    return {"low": min(values), "high": max(values)} if values else None


def _share(found: Iterator[bool]) -> float:
    values = list(found)
    return sum(values) / len(values)
