"""The hardware's lower bound on a benchmark's time: bytes over bandwidth, operations over peak.  Pure.

Williams, Waterman, Patterson: Roofline (2009).  The peaks are in `.github/pullrank.yml`, the formulas in a task's
`work`; without both there is no bound.  `Throughput` has the units and the words of all tables and JSON files.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from harness.records.fields import Param
from harness.records.judgement import CaseResult
from harness.records.stats import Interval, score
from harness.task.formula import NotAFormula, evaluate
from harness.task.task import Board, Work
from harness.task.task_values import Dtype
from scripts.common.text import format_limit, format_rate, format_us
from scripts.competition.settings import Gpu


class Throughput(BaseModel):
    """The throughput of a case at this time; None for what `work` does not count, and for an unknown limit.

    `tflops` are 10^12 operations per second in the number format `dtype`.  `limit` is the hardware's limit over the
    time: 1 is the limit.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, allow_inf_nan=False)

    bandwidth_gbs: float | None
    tflops: float | None
    dtype: Annotated[str, Field(max_length=100)]
    limit: float | None

    def __str__(self) -> str:
        """`412 GB/s · 3.21 TFLOP/s · 61 % of the limit`"""
        op = "OP" if self.dtype.startswith("int") else "FLOP"
        parts = []
        if self.bandwidth_gbs is not None:
            parts.append(format_rate(self.bandwidth_gbs, "GB/s"))
        if self.tflops is not None:
            is_large = self.tflops >= 1
            parts.append(format_rate(self.tflops * (1 if is_large else 1e3), f"{'T' if is_large else 'G'}{op}/s"))
        if self.limit is not None:
            parts.append(f"{format_limit(self.limit)} of the limit")
        return " · ".join(parts)


@dataclass(frozen=True, kw_only=True)
class Roofline:
    """A task's work, and the GPU whose peaks limit it.  Either may be unknown."""

    work: Work | None = None
    gpu: Gpu | None = None

    def throughput(self, params: Mapping[str, Param], time_us: float) -> Throughput | None:
        """The throughput of a case; None without `work`, or if its formulas have no value for the case."""
        if not self.work:
            return None
        try:
            moved, flops = work_of(self.work, params)
        except NotAFormula:
            return None
        floor = floor_us(moved, flops, self.work.dtype, self.gpu) if self.gpu else 0.0
        rates = moved / time_us / 1e3, flops / time_us / 1e6, floor / time_us
        if not any(rates) or not all(map(math.isfinite, rates)):
            return None
        gbs, tflops, limit = (rate or None for rate in rates)
        return Throughput(bandwidth_gbs=gbs, tflops=tflops, dtype=self.work.dtype, limit=limit)

    def of(self, case: CaseResult) -> Throughput | None:
        """The throughput of a judged benchmark, or of a profile's call; None for other cases."""
        time_us = case.profile.call_us if case.profile else case.time_us
        return self.throughput(case.params, time_us) if time_us else None

    def line(self, params: Mapping[str, Param], time_us: float) -> str:
        """A time with its throughput: `1.310 ms · 412 GB/s · 61 % of the limit`."""
        return " · ".join(filter(None, (format_us(time_us), str(self.throughput(params, time_us) or ""))))


NO_ROOFLINE = Roofline()
"""Neither is known, so no time has a throughput."""


def work_of(work: Work, params: Mapping[str, Param]) -> tuple[float, float]:
    """The bytes to move and the operations to execute.

    Raises:
        NotAFormula: a formula has no value for these parameters.
    """
    moved = evaluate(work.bytes, params) if work.bytes else 0.0
    return moved, evaluate(work.flops, params) if work.flops else 0.0


def floor_us(moved: float, flops: float, dtype: Dtype, gpu: Gpu) -> float:
    """The least possible time for some bytes and operations, in microseconds; 0 if the peaks are unknown."""
    return max(
        moved / (gpu.bandwidth_gbs * 1e3) if gpu.bandwidth_gbs else 0.0,
        flops / (gpu.tflops[dtype] * 1e6) if dtype in gpu.tflops else 0.0,
    )


def find_floors_us(board: Board, gpu: Gpu | None) -> tuple[float, ...] | None:
    """The floor of each of a board's benchmarks, in microseconds; None if one of them is unknown."""
    work = board.task.work
    if not work or not gpu:
        return None
    try:
        floors = tuple(floor_us(*work_of(work, case.params), work.dtype, gpu) for case in board.benchmarks)
    except NotAFormula:
        return None
    return floors if all(floor > 0 for floor in floors) else None


def find_floor_score_us(board: Board, gpu: Gpu | None) -> float | None:
    """The floors as one score, in microseconds, computed like the scores of rows so that they are comparable."""
    if not (floors := find_floors_us(board, gpu)):
        return None
    return score([Interval(value=floor, low=floor, high=floor) for floor in floors], board.ranking_by).value
