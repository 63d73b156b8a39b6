"""When to play what, how often, and what the times are worth.

Submission and anchor play by turns, each run with a fresh player, in mirrored order, so that drift of the
machine falls on both alike:

    S A   A S   S A   A S   …      one pair after the other, six pairs at least

until the interval of their ratio is within ±1 % or the time for it is spent.  How many calls a run makes
is the referee's alone: it never follows from how fast a player seems to be.

What a window costs beside the kernel is measured by honest players that do nothing with the same inputs.  Of
their windows the lower quartile is the overhead, which is subtracted from every window.  A player that had no
overhead at all would gain just that: so it is the bound, too.  Where a player takes the time itself, the overhead is
that of its clock, and the bound is what the referee's clock cannot account for (`alibi`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from harness.records.fields import Param
from harness.records.stats import MIN_PAIRS, Interval, is_decided, median, ratio_interval
from harness.records.times import DuelCase, GpuState, Run, Timing, duel_ratio, pair_ratios
from harness.referee.self_timing import Outside, hidden_us

WARMUPS = 2
SAMPLES = 10
CALIBRATIONS = 2
"""Idle players; the quickest counts, so that a machine that stalls for a moment makes nobody look faster."""
STEADY = 0.01
"""Half-width of the ratio's interval at which sampling may end."""

RESOLUTION = 0.1
"""No sample is written down as less than this share of the overhead: below it, there is nothing but noise."""

_TICK_US = 0.01
"""No clock here ticks faster."""

NULL_KERNEL = """
def custom_kernel(data):
    while isinstance(data, (tuple, list, dict)) and data:
        data = next(iter(data.values() if isinstance(data, dict) else data))
    return data
"""
"""What an honest player does that does nothing: it returns the first tensor that it was given."""

Play = Callable[[int], "Windows"]
"""Play one run with a fresh player; the argument is its place in the order of play."""


@dataclass(frozen=True, kw_only=True)
class Windows:
    """The windows of one run in microseconds, raw, with the seed of each call; warm-ups first."""

    windows_us: tuple[float, ...]
    seeds: tuple[int, ...]
    outside: tuple[Outside, ...] = ()
    """Of each call, what the referee's clock says, where `windows_us` are the player's word."""
    gpu: GpuState | None = None

    def as_run(self, order: int, overhead_us: float) -> Run:
        times = tuple(max(window - overhead_us, RESOLUTION * overhead_us) for window in self.windows_us)
        return Run(order=order, warmups_us=times[:WARMUPS], samples_us=times[WARMUPS:], seeds=self.seeds)


def calibrate(play_null: Play) -> float:
    """The lower quartile of the windows of a player that does nothing, in microseconds; more than nothing."""
    quartiles = [_lower_quartile(play_null(order).windows_us[WARMUPS:]) for order in range(CALIBRATIONS)]
    return max(min(quartiles), _TICK_US)


def _lower_quartile(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 4]


def time_case(
    play_submission: Play, play_anchor: Play, overhead_us: float, steady_s: float, pairs: int = MIN_PAIRS
) -> Timing:
    """Play pairs of runs until their ratio is steady, or `steady_s` seconds are spent beyond the first `pairs`.

    Fewer than `MIN_PAIRS` show what order a time is of; their interval claims no 95 %.
    """
    submission: list[Run] = []
    anchor: list[Run] = []
    outside: list[Outside] = []
    states: list[GpuState] = []
    give_up = math.inf
    while True:
        sides = [(play_submission, submission), (play_anchor, anchor)]
        for play, runs in sides if len(submission) % 2 == 0 else reversed(sides):
            order = len(submission) + len(anchor)
            windows = play(order)
            runs.append(windows.as_run(order, overhead_us))
            outside += windows.outside[WARMUPS:] if runs is submission else ()
            states += [windows.gpu] if windows.gpu else []
        if len(submission) < pairs:
            continue
        if give_up == math.inf:
            give_up = time.monotonic() + steady_s
        ratio = ratio_interval(pair_ratios(tuple(submission), tuple(anchor)))
        is_lost = any(median([run.median_us for run in runs]) <= _lost_us(overhead_us) for runs in (submission, anchor))
        steady = is_steady(ratio) and not is_lost
        # An odd number of pairs would leave the order of play lopsided.
        if len(submission) % 2 == 0 and (steady or time.monotonic() > give_up):
            break
    return Timing.of(
        tuple(submission),
        tuple(anchor),
        overhead_us=overhead_us,
        bound_us=max(overhead_us, hidden_us(outside)) if outside else overhead_us,
        steady=steady,
        note="" if steady else _lost(overhead_us) if is_lost else _unsteady(ratio, len(submission)),
        gpu=tuple(states),
    )


def is_steady(ratio: Interval) -> bool:
    return ratio.log_half_width <= STEADY


def _lost_us(overhead_us: float) -> float:
    """A sample of at most this has left nothing but noise."""
    return RESOLUTION * overhead_us * (1 + 1e-9)


def _lost(overhead_us: float) -> str:
    return f"Not steady: it is too short to be told from a window's own cost of {overhead_us:.0f} µs."


def _unsteady(ratio: Interval, pairs: int) -> str:
    return (
        f"Not steady: after {pairs} pairs of runs the ratio's 95 % interval is still ±{ratio.log_half_width:.1%}. "
        "A quieter machine, or a longer benchmark, would sharpen it."
    )


class Blocks:
    """One case of a duel, played in A-B-B-A blocks: two runs of either side in each."""

    def __init__(self, params: Mapping[str, Param], challenger: Play, champion: Play, overhead_us: float) -> None:
        self._params = params
        self._sides = challenger, champion
        self._overhead_us = overhead_us
        self._runs: tuple[list[Run], list[Run]] = [], []
        self._states: list[GpuState] = []

    def play(self) -> None:
        for side in (0, 1, 1, 0):
            order = sum(map(len, self._runs))
            windows = self._sides[side](order)
            self._runs[side].append(windows.as_run(order, self._overhead_us))
            self._states += [windows.gpu] if windows.gpu else []

    @property
    def case(self) -> DuelCase:
        """What has been played so far."""
        challenger, champion = map(tuple, self._runs)
        return DuelCase(params=dict(self._params), challenger=challenger, champion=champion, gpu=tuple(self._states))


def play_until_decided(
    cases: Sequence[Blocks],
    ranking_by: str,
    looks: Sequence[int],
    *,
    has_time: Callable[[float], bool],
    on_block: Callable[[int, int], None],
) -> Interval:
    """Play equally many blocks of all cases, until a look at them decides; challenger / champion.

    Args:
        looks: after how many blocks to look.
        has_time: asked at a look that does not decide: whether all may become so many times as long.
        on_block: hears before each block how many are done, and how many will be at the next look.
    """
    done = 0
    for look in looks:
        if done and not has_time(look / done):
            break
        for number, case in enumerate(cases):
            for block in range(done, look):
                on_block(done * len(cases) + number * (look - done) + block - done, look * len(cases))
                case.play()
        done = look
        ratio = duel_ratio([case.case for case in cases], ranking_by)
        if is_decided(ratio):
            break
    return ratio
