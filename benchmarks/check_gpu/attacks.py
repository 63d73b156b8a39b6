"""Attacks on a GPU's clock and caches.  `make check-gpu` judges them with an honest sum as the anchor.

    tests/exploits/gpu/<attack>.py     a submission to `vectoradd`; its docstring ends in `Expected: …`
        WA, SV, …                      the allowed verdicts
        gains nothing                  accepted, with a time no better than an honest player's
        within the bound               accepted, and gains no more than the bound of its time

Attacks that need a GPU have the directive `gpus`; the others also run in a rehearsal on a CPU.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.check_gpu.probe import ROOT, asks_for_gpu
from harness.records.verdict import Verdict

if TYPE_CHECKING:
    from harness.records.judgement import Judgement
    from harness.task.submission import Submission
    from harness.task.task import Board

FOLDER = ROOT / "tests" / "exploits" / "gpu"
GAINS_NOTHING = "gains nothing"
WITHIN_THE_BOUND = "within the bound"
_HONEST_FROM = 0.95
"""A time below this share of an honest player's is a gain."""


@dataclass(frozen=True)
class Exploit:
    path: Path

    @property
    def name(self) -> str:
        return self.path.stem.replace("_", " ")

    @property
    def submission(self) -> Submission:
        from harness.task.submission import Submission

        return Submission(login="attacker", source=self.path.read_bytes())

    @property
    def needs_gpu(self) -> bool:
        return asks_for_gpu(self.path.read_text("utf-8"))

    @cached_property
    def _told(self) -> str:
        return ast.get_docstring(ast.parse(self.path.read_text("utf-8"))) or ""

    @property
    def strategy(self) -> str:
        return " ".join(self._told.split("\n\n")[0].split())

    @property
    def expected(self) -> tuple[str, ...]:
        return tuple(re.findall(r"^Expected: (.+)$", self._told, re.MULTILINE)[-1].split(", "))

    def is_stopped(self, judgement: Judgement) -> bool:
        """Whether the outcome is one of the expected ones."""
        if judgement.verdict is not Verdict.ACCEPTED:
            return judgement.verdict.value in self.expected
        timing = next(case.timing for case in judgement.benchmarks if case.timing)
        if GAINS_NOTHING in self.expected and timing.ratio.high >= _HONEST_FROM:
            return True
        return WITHIN_THE_BOUND in self.expected and (
            timing.submission_us + timing.bound_us >= _HONEST_FROM * timing.anchor_us
        )


def exploits() -> tuple[Exploit, ...]:
    return tuple(map(Exploit, sorted(FOLDER.glob("*.py"))))


def beside_an_honest_sum(board: Board) -> Board:
    """A board of `vectoradd` whose anchor does what the attacks pretend to do."""
    anchor = board.task.folder / "examples" / "accepted" / "in_place.py"
    return replace(board, task=replace(board.task, anchor=anchor))
