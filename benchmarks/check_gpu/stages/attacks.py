"""Attacks on a GPU's clock and caches, judged with an honest sum as the anchor.

    tests/exploits/gpu/<attack>.py     a submission to `vectoradd`; its docstring ends in `Expected: …`
        WA, SV, …                      the allowed verdicts
        gains nothing                  accepted, with a time no better than an honest player's
        within the bound               accepted, and gains no more than the bound of its time

They were made for a clock that the player keeps, as on AMD's boards; the expected outcomes are those there.  Attacks
that need a GPU have the directive `gpus`; the others also run in a rehearsal on a CPU.
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
        """Whether the outcome is one of the expected ones, on a board whose times the player takes."""
        if judgement.verdict is not Verdict.ACCEPTED:
            return judgement.verdict.value in self.expected
        is_honest, is_bounded = _is_as_slow_as_an_honest_sum(judgement)
        return (GAINS_NOTHING in self.expected and is_honest) or (WITHIN_THE_BOUND in self.expected and is_bounded)

    def is_stopped_by_sealed_memory(self, judgement: Judgement) -> bool:
        """Whether it gains nothing on NVIDIA's boards, which lack what it attacks: any verdict may stop it."""
        return judgement.verdict is not Verdict.ACCEPTED or any(_is_as_slow_as_an_honest_sum(judgement))


def _is_as_slow_as_an_honest_sum(judgement: Judgement) -> tuple[bool, bool]:
    """Whether the time is as long as the anchor's: as it is, and with the bound."""
    timing = next(case.timing for case in judgement.benchmarks if case.timing)
    bounded_us = timing.submission_us + timing.bound_us
    return timing.ratio.high >= _HONEST_FROM, bounded_us >= _HONEST_FROM * timing.anchor_us


def exploits() -> tuple[Exploit, ...]:
    return tuple(map(Exploit, sorted(FOLDER.glob("*.py"))))


def beside_an_honest_sum(board: Board) -> Board:
    """A board of `vectoradd` whose anchor does what the attacks pretend to do."""
    anchor = board.task.folder / "examples" / "accepted" / "in_place.py"
    return replace(board, task=replace(board.task, anchor=anchor))
