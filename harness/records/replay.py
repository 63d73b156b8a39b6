"""Replay a judgement: look up its seeds by case, side and run.

A submission never sees a seed before its call.  Afterwards the judgement lists all seeds, so that anyone can generate
the same inputs again.  The ledger counts a replay as a benchmark: with known seeds, nothing can be ranked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.records.judgement import Judgement
from harness.records.times import Timing


@dataclass(frozen=True)
class Replay:
    """The seeds of a judgement.  Where it has none, the caller draws a fresh one."""

    judgement: Judgement

    def test_seed(self, index: int) -> int | None:
        """The seed of the test at this index in the task."""
        tests = self.judgement.tests
        return tests[index].seed if index < len(tests) else None

    def run_seeds(self, side: str, params: Mapping[str, Any], order: int) -> tuple[int, ...]:
        """The seeds of one run of a benchmark, one per window; empty if it was not played.

        Args:
            side: `submission` or `anchor`.
            order: the run's place in the order of play.
        """
        timing = self._timing(params)
        sides = {"submission": timing.submission, "anchor": timing.anchor} if timing else {}
        return next((run.seeds for run in sides.get(side, ()) if run.order == order), ())

    def calls_per_sample(self, params: Mapping[str, Any]) -> int | None:
        """How many calls each window of a benchmark held."""
        timing = self._timing(params)
        return timing.calls_per_sample if timing else None

    def _timing(self, params: Mapping[str, Any]) -> Timing | None:
        cases = (case for case in self.judgement.benchmarks if dict(case.params) == dict(params))
        return next((case.timing for case in cases), None)
