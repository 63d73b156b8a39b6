"""A judgement to be played again: the seeds that it was played on, by case, side and run.

Whoever is judged never sees a seed before its call; afterwards they stand in the judgement, so that anyone can draw
the same inputs again.  What is replayed is a benchmark to the ledger: seeds that are known rank nobody.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.records.judgement import Judgement


@dataclass(frozen=True)
class Replay:
    """The seeds of a judgement; None is given where it has none, and a fresh one is drawn."""

    judgement: Judgement

    def test_seed(self, index: int) -> int | None:
        """The seed of the test at this place in the task."""
        tests = self.judgement.tests
        return tests[index].seed if index < len(tests) else None

    def run_seeds(self, side: str, params: Mapping[str, Any], order: int) -> tuple[int, ...] | None:
        """The seeds of a benchmark's run, one for each call, by its place in the order of play.

        Args:
            side: `submission` or `anchor`.
        """
        for case in self.judgement.benchmarks:
            if case.timing and dict(case.params) == dict(params):
                sides = {"submission": case.timing.submission, "anchor": case.timing.anchor}
                return next((run.seeds for run in sides.get(side, ()) if run.order == order), None)
        return None
