"""Baselines: examples of a task that its boards show with their times, but do not rank.  Pure.

With them a board shows how long a library's function takes.  A baseline is judged like any submission, and the
judgement says that it is one.  So a change of the task's baselines changes no rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from harness.records.judgement import Judgement
from harness.task.task import Baseline, Board
from scripts.standings.author_files import PooledFile
from scripts.standings.roofline import Roofline


@dataclass(frozen=True, kw_only=True)
class BaselineTime(PooledFile):
    """A baseline's time on a board, pooled over the judgements of all who submitted it."""

    baseline: Baseline

    @property
    def name(self) -> str:
        return self.baseline.name

    def facts(self, roofline: Roofline) -> dict[str, Any]:
        """The baseline for scripts: times in microseconds."""
        return {
            "name": self.name,
            "score_us": self.score_us.model_dump(),
            "digest": self.digest,
            "judgements": len(self.judgements),
            "cases": [case.facts(roofline) for case in self.cases],
        }


def baseline_times(
    board: Board, judgements: Sequence[Judgement], nominal_us: tuple[float, ...]
) -> tuple[BaselineTime, ...]:
    """The task's baselines that were judged, the fastest first.

    Args:
        judgements: those that count, in ledger order.
        nominal_us: the anchor's usual times, one for each benchmark.
    """
    found = []
    for baseline in board.task.baselines:
        ours = tuple(one for one in judgements if one.baseline and one.submission.digest == baseline.digest)
        if ours:
            time = BaselineTime(baseline=baseline, judgements=ours, ranking_by=board.ranking_by, nominal_us=nominal_us)
            found.append(time)
    return tuple(sorted(found, key=lambda one: one.score_us.value))
