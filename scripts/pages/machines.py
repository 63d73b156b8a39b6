"""The page of the machines that judge: how fast each ran its anchors over time, and how often it was slow or busy.

    judgement  ─▶  Reading: the anchor's time over its usual time on that board, the geometric mean of all benchmarks
    readings of one machine  ─▶  Runner: pace, spread, drift, how often slow, busy or throttled

The anchor never changes, so a change of its time is a change of the machine.  A machine is identified by what it
reports (device, processor, cores); two machines that report the same count as one.
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

from harness.records.judgement import Judgement, Machine
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


class Reading(NamedTuple):
    """The machine during one judging.  `share` is the anchor's time over its usual time on the board."""

    at: datetime
    gpu: str
    name: tuple[str, str, int]
    share: float
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
    """A machine and its readings, oldest first.  `drift` is None if there are too few of them."""

    gpu: str
    device: str
    cpu: str
    cores: int
    readings: tuple[Reading, ...]

    @cached_property
    def pace(self) -> float:
        return median([one.share for one in self.readings])

    @cached_property
    def spread(self) -> float:
        """The interquartile range of all readings, as a share of the pace."""
        shares = sorted(one.share for one in self.readings)
        return (shares[3 * len(shares) // 4] - shares[len(shares) // 4]) / self.pace

    @cached_property
    def drift(self) -> float | None:
        """How much slower the last fifth of the readings is than the first fifth, as a share."""
        fifth = len(self.readings) // 5
        if len(self.readings) < FEWEST_FOR_DRIFT:
            return None
        first, last = self.readings[:fifth], self.readings[-fifth:]
        return median([one.share for one in last]) / median([one.share for one in first]) - 1

    @property
    def software(self) -> Mapping[str, str]:
        """What it had in its last judging, by name."""
        return next((one.software for one in reversed(self.readings) if one.software is not None), {})

    @property
    def slow(self) -> float:
        return _share(one.share > SLOW * self.pace for one in self.readings)

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
    def drawn(self) -> tuple[Reading, ...]:
        """At most `MOST_READINGS` readings, at even steps."""
        return self.readings[:: math.ceil(len(self.readings) / MOST_READINGS)]

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
            "readings": [one.facts for one in self.drawn],
        }


def readings_of(table: Standings, judgements: Sequence[Judgement]) -> list[Reading]:
    """One reading for each judgement of the board's current edition; empty if the board has no anchor."""
    found: list[Reading] = []
    newest: dict[tuple[str, str, int], Judgement] = {}
    for judgement in sorted(judgements, key=attrgetter("finished_at")):
        anchors = [case.timing.anchor_us for case in judgement.benchmarks if case.timing]
        if judgement.edition == table.board.edition and table.nominal_us and len(anchors) == len(table.nominal_us):
            machine = judgement.machine
            reading = Reading(
                at=judgement.finished_at,
                gpu=judgement.gpu,
                name=name_of(machine),
                share=geometric_mean(us / usual for us, usual in zip(anchors, table.nominal_us, strict=True)),
                clock_mhz=machine.clock_mhz,
                temperature_c=machine.temperature_c,
                quiet=machine.quiet,
                software=None,
            )
            found.append(reading)
            newest[reading.name] = judgement
    return [
        one._replace(software=newest[one.name].machine.versions) if one.at == newest[one.name].finished_at else one
        for one in found
    ]


def name_of(machine: Machine) -> tuple[str, str, int]:
    return machine.device, machine.cpu, machine.cores


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


def _timeline(runner: Runner) -> Timeline:
    readings = runner.readings
    shares = sorted(one.share for one in readings)
    low, high = min(shares[len(shares) // 50], 0.97), max(shares[-1 - len(shares) // 50], 1.03)
    y = Scale(low / 1.005, high * 1.005, _BOTTOM, _TOP)
    start, seconds = readings[0].at, (readings[-1].at - readings[0].at).total_seconds() or 1.0

    def x(at: datetime) -> float:
        return _WIDTH * (at - start).total_seconds() / seconds

    dots = (f"M{x(one.at):.0f} {y(one.share):.0f}h0" for one in runner.drawn)
    return Timeline(
        description=f"{len(readings)} judgings; the anchor took {shares[0]:.2f} to {shares[-1]:.2f} of its usual time.",
        dots="".join(dict.fromkeys(dots)),
        path="M" + "L".join(f"{x(at):.1f} {y(share):.1f}" for at, share in _medians(readings)),
        ticks=tuple(Tick(at=y(share), label=_label(share)) for share in _round_shares(low, high)),
        dates=tuple(dict.fromkeys(day(one.at) for one in (readings[0], readings[-1]))),
    )


def _label(share: float) -> str:
    return "usual" if abs(share - 1) < 1e-9 else f"{share - 1:+.0%}".replace("%", " %").replace("-", "−")


def _medians(readings: Sequence[Reading]) -> list[tuple[datetime, float]]:
    """The median of each of `_STRETCHES` groups of equally many readings."""
    edges = [round(index * len(readings) / _STRETCHES) for index in range(_STRETCHES + 1)]
    stretches = [readings[a:b] for a, b in pairwise(edges) if b > a]
    return [(part[len(part) // 2].at, median([one.share for one in part])) for part in stretches]


def _round_shares(low: float, high: float) -> list[float]:
    """A few round shares for the axis; 1 is one of them."""
    step = next((step for step in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 5) if (high - low) / step <= 6), 50)
    return [1 + k * step for k in range(math.ceil((low - 1) / step), math.floor((high - 1) / step) + 1)]


def _range(values: Sequence[float]) -> dict[str, float] | None:
    return {"low": min(values), "high": max(values)} if values else None


def _share(found: Iterator[bool]) -> float:
    values = list(found)
    return sum(values) / len(values)
