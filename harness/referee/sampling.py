"""Sampling: the order and number of runs, and the accuracy of the times.

Submission and anchor alternate, each run with a fresh player, in mirrored order, so that drift of the
machine affects both alike:

    S A I   I A S   S A I   I A S   …      at least six pairs

Sampling ends when the interval of their ratio is within ±1 %, or when its time is up.  All runs of a case have the same
number of calls.  On a GPU, the pace of the anchor, or of B in `pullrank duel`, decides it (`calls_per_window`).

Idle players (I) do nothing with inputs of the same shapes, and so measure the cost of a window apart from the kernel.
The lower quartile of one's windows is the overhead, which is subtracted from every window of its pair.  Each pair has
an idle player of its own, so the interval of the ratio includes the overhead's scatter, but not the bias of a quartile.
That player never follows the submission, which might leave work behind.  A player without any overhead would gain
exactly that much, so the overhead is also the bound.

In a duel and on a GPU, idle players play first (`early_overhead`).  In a duel, both sides lose the same overhead, and
neither could disturb an idle player between its blocks.  If the player takes the time itself, the overhead is that of
its clock, and the bound is the time that the referee's clock cannot account for (`self_timing`).  If the GPU's memory
is sealed, its own clock measures the window.  Few of its windows stall, and the overhead may be three times a kernel's
time.  So the overhead is estimated in the same way as the time, without bias (`central_overhead`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from harness.records.fields import Param
from harness.records.stats import (
    MIN_PAIRS,
    Interval,
    is_decided,
    is_faster,
    is_won,
    median,
    ratio_interval,
    stalls,
    tapered_mean,
)
from harness.records.times import DuelCase, GpuState, Run, Timing, duel_ratio, pair_ratios
from harness.referee.self_timing import Outside, hidden_us

WARMUPS = 4
"""The first calls cost up to five times as much, for fresh pages and cold code; after the fourth, few still do."""
SAMPLES = 10
FULL_WARMUPS, FULL_SAMPLES = 2, 6
"""The same for windows that hold several calls."""
CALIBRATIONS = 2
"""Number of idle players before the pairs."""
AGREEMENT = 0.03
"""If the overheads of two idle players differ by a larger share, a third one decides (`central_overhead`)."""
STEADY = 0.01
"""Half-width of the ratio's interval at which sampling may end."""

RESOLUTION = 0.1
"""Samples are at least this share of the overhead; smaller differences are only noise."""

_TICK_US = 0.01
"""Below the resolution of any clock used here."""

NULL_KERNEL = """
def custom_kernel(data):
    while isinstance(data, (tuple, list, dict)) and data:
        data = next(iter(data.values() if isinstance(data, dict) else data))
    return data
"""
"""The idle player: returns its first input tensor."""

SEALED_NULL_KERNEL = """
from harness.inside.shared_memory import SharedMemory


def custom_kernel(data):
    return SharedMemory.blank_output()
"""
"""The idle player of a device whose memory is sealed: returns as many bytes as a right output has."""
SMALL_OVERHEAD = 0.01
"""The share of the anchor's time that the overhead should have at most, if windows may hold several calls: it is then a
tenth of the time of a file that is ten times as fast."""
LONGEST_WINDOW_S = 0.1
"""How long making the inputs, the calls and the checks of a window with several calls should take at most."""

Play = Callable[[int], "Windows"]
"""Play one run with a fresh player; the argument is its position in the order of play."""

Overhead = Callable[[], float]
"""Return the overhead of a call in microseconds, for one pair; where it is not fixed, play an idle player."""


@dataclass(frozen=True, kw_only=True)
class Windows:
    """The raw windows of one run in microseconds, with the seed of each; warm-ups first.

    A window with several calls counts as one of them: its time and overhead are divided by their number.
    """

    windows_us: tuple[float, ...]
    seeds: tuple[int, ...]
    calls_per_sample: int = 1
    work_s: float = 0.0
    """How long the referee's work for a call takes, in seconds: to make its inputs and to check its output."""
    outside: tuple[Outside, ...] = ()
    """The referee's measurements per call, if the player reported `windows_us` itself."""
    gpu: GpuState | None = None
    is_queued: bool = False
    """Whether the player queued its work on the GPU before the inputs were revealed, at the end of the run."""

    @property
    def warmups(self) -> int:
        return warmups_and_samples(self.calls_per_sample)[0]

    @property
    def samples_us(self) -> tuple[float, ...]:
        """The windows without the warm-ups; the overhead is not subtracted."""
        return self.windows_us[self.warmups :]

    @property
    def stalls(self) -> bool:
        return stalls(self.samples_us)

    def as_run(self, order: int, overhead_us: float) -> Run:
        times = tuple(max(window - overhead_us, RESOLUTION * overhead_us) for window in self.windows_us)
        return Run(
            order=order,
            warmups_us=times[: self.warmups],
            samples_us=times[self.warmups :],
            seeds=self.seeds,
            estimator="tapered mean",
        )


def warmups_and_samples(calls: int) -> tuple[int, int]:
    """How many windows of a run are warm-ups and samples, if each holds `calls` calls."""
    return (WARMUPS, SAMPLES) if calls == 1 else (FULL_WARMUPS, FULL_SAMPLES)


def player_overhead(play_null: Play, order: int = 0) -> float:
    """Play an idle player; return the lower quartile of its windows, in microseconds."""
    samples_us = sorted(play_null(order).samples_us)
    return max(samples_us[len(samples_us) // 4], _TICK_US)


def early_overhead(play_null: Play) -> float:
    """Play two idle players; return the smaller overhead, so that a stall makes no submission look faster."""
    return min(player_overhead(play_null, order) for order in range(CALIBRATIONS))


def central_overhead(play_null: Play) -> tuple[float, list[Windows]]:
    """Play two idle players, and a third one if these disagree; return the median of their times, and their windows.

    As with any run, the time of a player is the tapered mean of its windows, here in microseconds.
    """
    runs = [play_null(order) for order in range(CALIBRATIONS)]
    times_us = [tapered_mean(run.samples_us) for run in runs]
    if max(times_us) > (1 + AGREEMENT) * min(times_us):
        runs.append(play_null(CALIBRATIONS))
        times_us.append(tapered_mean(runs[-1].samples_us))
    return max(median(times_us), _TICK_US), runs


def calls_per_window(played: Windows, overhead_us: float, most: int) -> int:
    """How many calls make the overhead of a window small beside their time; 1 if windows of one call do.

    Args:
        played: a run of a player that computes, with one call per window.
    """
    time_us = median(played.samples_us) - overhead_us
    wanted = math.ceil(overhead_us / max(SMALL_OVERHEAD * time_us, _TICK_US))
    affordable = int(LONGEST_WINDOW_S / (played.work_s + max(time_us, _TICK_US) / 1e6))
    return max(1, min(most, wanted, affordable))


def time_case(
    play_submission: Play,
    play_anchor: Play,
    overhead: Overhead,
    steady_s: float,
    pairs: int = MIN_PAIRS,
    *,
    loop_us: float = 0.0,
) -> Timing:
    """Play pairs of runs until their ratio is steady, for up to `steady_s` seconds after the first `pairs`.

    With fewer than `MIN_PAIRS`, the result is only a rough estimate, and its interval covers less than 95 %.

    Args:
        loop_us: the most that our loop in the player adds to a call, in microseconds.  A player could avoid this and
            the overhead, so together they are the bound of the times.
    """
    submission: list[Run] = []
    anchor: list[Run] = []
    overheads_us: list[float] = []
    outside: list[Outside] = []
    states: list[GpuState] = []
    give_up = math.inf
    while True:
        order, is_mirrored = 2 * len(submission), len(submission) % 2 == 1
        if is_mirrored:
            overhead_us = overhead()
            theirs, ours = play_anchor(order), play_submission(order + 1)
        else:
            ours, theirs = play_submission(order), play_anchor(order + 1)
            overhead_us = overhead()
        submission.append(ours.as_run(order + is_mirrored, overhead_us))
        anchor.append(theirs.as_run(order + (not is_mirrored), overhead_us))
        overheads_us.append(overhead_us)
        outside += ours.outside[ours.warmups :]
        states += [one.gpu for one in ((theirs, ours) if is_mirrored else (ours, theirs)) if one.gpu]
        if len(submission) < pairs:
            continue
        if give_up == math.inf:
            give_up = time.monotonic() + steady_s
        ratio = ratio_interval(pair_ratios(tuple(submission), tuple(anchor)))
        is_lost = any(_is_lost(runs, overheads_us) for runs in (submission, anchor))
        steady = is_steady(ratio) and not is_lost
        # With an odd number of pairs, the order of play would not be balanced.
        if len(submission) % 2 == 0 and (steady or time.monotonic() > give_up):
            break
    overhead_us = median(overheads_us)
    return Timing.of(
        tuple(submission),
        tuple(anchor),
        overhead_us=overhead_us,
        overheads_us=tuple(overheads_us) if len(set(overheads_us)) > 1 else (),
        bound_us=max(overhead_us, hidden_us(outside)) if outside else overhead_us + loop_us,
        calls_per_sample=ours.calls_per_sample,
        steady=steady,
        note="" if steady else _lost(overhead_us) if is_lost else _unsteady(ratio, len(submission)),
        gpu=tuple(states),
    )


def is_steady(ratio: Interval) -> bool:
    return ratio.log_half_width <= STEADY


def _is_lost(runs: Sequence[Run], overheads_us: Sequence[float]) -> bool:
    """Whether the runs' samples are only noise: as small as samples can be."""
    shares = [run.time_us / overhead_us for run, overhead_us in zip(runs, overheads_us, strict=True)]
    return median(shares) <= RESOLUTION * (1 + 1e-9)


def _lost(overhead_us: float) -> str:
    return f"Not steady: the kernel is too short to be separated from the overhead of a call, {overhead_us:.0f} µs."


def _unsteady(ratio: Interval, pairs: int) -> str:
    return (
        f"Not steady: after {pairs} pairs of runs the ratio's 95 % interval is still ±{ratio.log_half_width:.1%}. "
        "Another judging, or a quieter machine, narrows it."
    )


class Blocks:
    """One case of a duel, played in A-B-B-A blocks with two runs per side."""

    def __init__(self, params: Mapping[str, Param], challenger: Play, champion: Play, overhead_us: float) -> None:
        self._params = params
        self._sides = challenger, champion
        self._overhead_us = overhead_us
        self._runs: tuple[list[Run], list[Run]] = [], []
        self._states: list[GpuState] = []
        self._calls_per_sample = 1

    def play(self) -> None:
        for side in (0, 1, 1, 0):
            order = sum(map(len, self._runs))
            windows = self._sides[side](order)
            self._runs[side].append(windows.as_run(order, self._overhead_us))
            self._calls_per_sample = windows.calls_per_sample
            self._states += [windows.gpu] if windows.gpu else []

    @property
    def case(self) -> DuelCase:
        """The blocks played so far."""
        challenger, champion = map(tuple, self._runs)
        return DuelCase(
            params=dict(self._params),
            challenger=challenger,
            champion=champion,
            calls_per_sample=self._calls_per_sample,
            gpu=tuple(self._states),
        )


def play_until_decided(
    cases: Sequence[Blocks],
    ranking_by: str,
    looks: Sequence[int],
    earlier: int = 0,
    *,
    has_time: Callable[[int, int], bool],
    on_block: Callable[[int, int], None],
) -> Interval:
    """Play the same number of blocks of all cases until a look decides the duel; return challenger / champion.

    Args:
        looks: numbers of blocks after which to look at the ratio.
        earlier: duels without a result before it, by the challenger's author against the champion's file.
        has_time: called if a look does not decide, with the numbers of blocks now and at the next look.
        on_block: called before each block with the number of blocks done and of those due at the next look.
    """
    done = 0
    for look in looks:
        if done and not has_time(done, look):
            break
        for number, case in enumerate(cases):
            for block in range(done, look):
                on_block(done * len(cases) + number * (look - done) + block - done, look * len(cases))
                case.play()
        done = look
        ratio = duel_ratio([case.case for case in cases], ranking_by, earlier)
        if is_won(ratio, done, earlier) or (is_decided(ratio) and not is_faster(ratio)):
            break
    return ratio
