"""The hardware's lower bound on a benchmark's time: bytes over bandwidth, operations over peak.  Pure.

Williams, Waterman, Patterson: Roofline (2009).  The peaks are in `.github/pullrank.yml`, the formulas in a task's
`work`; without both there is no bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.records.fields import Param
from harness.records.stats import Interval, score
from harness.task.formula import NotAFormula, evaluate
from harness.task.task import Board, Work
from scripts.competition.settings import Gpu


def work_of(work: Work, params: Mapping[str, Param]) -> tuple[float, float]:
    """The bytes to move and the operations to execute.

    Raises:
        NotAFormula: a formula has no value for these parameters.
    """
    moved = evaluate(work.bytes, params) if work.bytes else 0.0
    return moved, evaluate(work.flops, params) if work.flops else 0.0


def floor_us(work: Work, params: Mapping[str, Param], gpu: Gpu) -> float:
    """The least possible time, in microseconds; 0 if the peaks are unknown.

    Raises:
        NotAFormula: a formula has no value for these parameters.
    """
    moved, flops = work_of(work, params)
    return max(
        moved / (gpu.bandwidth_gbs * 1e3) if gpu.bandwidth_gbs else 0.0,
        flops / (gpu.tflops[work.dtype] * 1e6) if work.dtype in gpu.tflops else 0.0,
    )


def find_floors_us(board: Board, gpu: Gpu | None) -> tuple[float, ...] | None:
    """The floor of each of a board's benchmarks, in microseconds; None if one of them is unknown."""
    work = board.task.work
    if not work or not gpu:
        return None
    try:
        floors = tuple(floor_us(work, case.params, gpu) for case in board.benchmarks)
    except NotAFormula:
        return None
    return floors if all(floor > 0 for floor in floors) else None


def floor_score_us(floors: Sequence[float], ranking_by: str) -> float:
    """The floors as one score, in microseconds, computed like the scores of rows so that they are comparable."""
    return score([Interval(value=floor, low=floor, high=floor) for floor in floors], ranking_by).value
