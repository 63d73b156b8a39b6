"""A file's time in each benchmark, pooled over its judgements.  Pure; `standings` ranks by it.

judgements by the referee        all pairs of runs: their ratio to the anchor, times the anchor's usual time
judgements by a task's program   the times that it reported for all its processes
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from harness.records.judgement import Judgement
from harness.records.stats import Interval, median, ratio_interval
from harness.records.times import Timing, ToldTiming, told_time
from scripts.standings.roofline import Roofline

MAX_POOLED = 20
"""The newest judgements of a file that are pooled.  More would be slow and add no precision."""


@dataclass(frozen=True, kw_only=True)
class CaseTime:
    """One benchmark of a row.  `ratio` is to the anchor; `time_us` is `ratio` times the anchor's usual time.

    A time from the task's own program has no anchor, and so only `time_us`.
    """

    params: Mapping[str, Any]
    time_us: Interval
    ratio: Interval | None = None

    def facts(self, roofline: Roofline) -> dict[str, Any]:
        """The benchmark for scripts."""
        throughput = roofline.throughput(self.params, self.time_us.value)
        return {
            "params": dict(self.params),
            "time_us": self.time_us.model_dump(),
            "ratio": self.ratio and self.ratio.model_dump(),
            "throughput": throughput and throughput.model_dump(),
        }


def _timings(judgement: Judgement) -> list[Timing]:
    return [case.timing for case in judgement.benchmarks if case.timing]


def nominal_times(judgements: Sequence[Judgement], ranking_by: str) -> tuple[float, ...]:
    """The anchor's usual time in each case, in microseconds: the median over all of a board's judgements.

    With `mean` these times weight the cases.  So their proportions stay those of the first judgement, and only the
    median of the sums changes: no later judgement reverses an earlier result.
    """
    anchors_us = [[timing.anchor_us for timing in _timings(one)] for one in judgements]
    if ranking_by == "mean" and anchors_us and (first_us := anchors_us[0]):
        usual = median([sum(one) for one in anchors_us]) / sum(first_us)
        return tuple(usual * us for us in first_us)
    return tuple(median(column) for column in zip(*anchors_us, strict=True))


def case_times(judgements: Sequence[Judgement], nominal_us: Sequence[float]) -> tuple[CaseTime, ...]:
    """A file's times, pooled over its judgements; `nominal_us` are the anchor's, if the board has one."""
    cases = [case.params for case in judgements[-1].benchmarks if case.time_us]
    if not (timings := [*zip(*map(_timings, judgements), strict=True)]):
        return tuple(map(_told_time, cases, zip(*map(_told, judgements), strict=True)))
    ratios = [_pooled_ratio(one) for one in timings]
    return tuple(
        CaseTime(params=params, time_us=ratio.scaled(us), ratio=ratio)
        for params, ratio, us in zip(cases, ratios, nominal_us, strict=False)
    )


def _told(judgement: Judgement) -> list[ToldTiming]:
    return [case.told for case in judgement.benchmarks if case.told]


def _told_time(params: Mapping[str, Any], told: Sequence[ToldTiming]) -> CaseTime:
    return CaseTime(params=params, time_us=told_time([run for one in told for run in one.runs]))


def _pooled_ratio(timings: Sequence[Timing]) -> Interval:
    if len(timings) == 1:
        return timings[0].ratio
    return ratio_interval(list(chain.from_iterable(timing.pair_ratios for timing in timings)))
