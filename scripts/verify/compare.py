"""Compare a judgement with its replay: verdicts, outputs, ratios, machines.  Pure.

A judgement has digests of inputs and outputs.  Different output bits are no fault: an accepted output need only be
within the task's tolerance, machines round differently, and a kernel may sum in another order each time.  Different
inputs are a fault: the task drew other inputs here, so nothing was replayed.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

from harness.records.judgement import CaseResult, Judgement
from harness.records.stats import Interval, tied
from harness.records.verdict import Verdict

_MACHINE = ("device", "cpu", "cores", "memory_gib", "os", "python", "torch", "driver")


class Outputs(StrEnum):
    """A case's outputs here compared with those of the judgement; `close` means within the task's tolerance."""

    SAME = "same bits"
    CLOSE = "close"
    ELSEWHERE = "other inputs"
    UNKNOWN = "not recorded"


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A case as it was judged, and its replay; `here` is None if it was not replayed."""

    judged: CaseResult
    here: CaseResult | None

    @property
    def is_same(self) -> bool:
        is_played = self.here is not None and self.here.verdict is self.judged.verdict
        return is_played and self.outputs is not Outputs.ELSEWHERE

    @property
    def outputs(self) -> Outputs | None:
        """How the outputs compare; None unless both runs were accepted."""
        if not (self.here and self.here.verdict is self.judged.verdict is Verdict.ACCEPTED):
            return None
        then, now = self.judged.digests, self.here.digests
        if not (then and now):
            return Outputs.UNKNOWN
        if then.inputs != now.inputs:
            return Outputs.ELSEWHERE
        return Outputs.SAME if then.outputs == now.outputs else Outputs.CLOSE

    @property
    def ratios(self) -> tuple[Interval, Interval] | None:
        """The ratios to the anchor: as judged, and here."""
        if self.here and self.judged.timing and self.here.timing:
            return self.judged.timing.ratio, self.here.timing.ratio
        return None

    @property
    def facts(self) -> dict[str, Any]:
        return {
            "kind": self.judged.kind,
            "params": dict(self.judged.params),
            "verdicts": [self.judged.verdict, self.here and self.here.verdict],
            "outputs": self.outputs,
            "ratios": self.ratios and [ratio.model_dump() for ratio in self.ratios],
            "same_ratio": self.ratios and tied(*self.ratios),
        }


@dataclass(frozen=True)
class Comparison:
    """A judgement and its replay `here`."""

    judged: Judgement
    here: Judgement

    @cached_property
    def pairs(self) -> tuple[Pair, ...]:
        """Cases paired by kind and index."""
        both = ((self.judged.tests, self.here.tests), (self.judged.benchmarks, self.here.benchmarks))
        return tuple(
            Pair(judged=one, here=now[index] if index < len(now) else None)
            for then, now in both
            for index, one in enumerate(then)
        )

    @property
    def is_same(self) -> bool:
        return self.judged.verdict is self.here.verdict and all(pair.is_same for pair in self.pairs)

    @property
    def exit_code(self) -> int:
        """0 if all is the same, 1 if not; 3 if judging failed here, which says nothing about the file."""
        return 3 if self.here.verdict is Verdict.JUDGING_ERROR else int(not self.is_same)

    @property
    def outputs(self) -> Counter[Outputs]:
        """The number of cases by result of the comparison of outputs."""
        return Counter(pair.outputs for pair in self.pairs if pair.outputs)

    @property
    def machines(self) -> dict[str, list[Any]]:
        """The differences between the machines: as judged, and here."""
        then, here = self.judged.machine, self.here.machine
        both = {name: [getattr(then, name), getattr(here, name)] for name in _MACHINE}
        return {name: values for name, values in both.items() if values[0] != values[1]}

    @property
    def facts(self) -> dict[str, Any]:
        return {
            "judgement": self.judged.checksum,
            "same": self.is_same,
            "verdicts": [self.judged.verdict, self.here.verdict],
            "outputs": dict(self.outputs),
            "cases": [pair.facts for pair in self.pairs],
            "machine": self.machines,
        }

    @property
    def sentence(self) -> str:
        """The conclusion, in words."""
        count, cases = self.outputs, f"{self.outputs.total()} accepted cases"
        if count[Outputs.ELSEWHERE]:
            return (
                f"No replay: in {count[Outputs.ELSEWHERE]} of {cases} the task drew other inputs from the same seeds. "
                f"It was judged with torch {self.judged.machine.torch}; this machine has {self.here.machine.torch}."
            )
        if self.judged.verdict is not self.here.verdict:
            return f"Not the same: {self.judged.verdict} as judged, {self.here.verdict} here."
        if not self.is_same:
            others = sum(not pair.is_same for pair in self.pairs)
            return f"Not the same: {others} of {len(self.pairs)} cases got another verdict here, or none."
        if count[Outputs.UNKNOWN]:
            return "The same verdicts. Inputs and outputs can't be compared: the judgement predates their digests."
        if count[Outputs.CLOSE]:
            return (
                f"The same verdicts, on the same inputs. In {count[Outputs.CLOSE]} of {cases} the output has other "
                "bits, within the task's tolerance: machines round differently, as does another order of summation."
            )
        outputs = " The same outputs, bit for bit." if count else ""
        return f"The same verdicts, on the same inputs.{outputs}"
