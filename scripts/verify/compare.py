"""A judgement beside its replay: verdicts, outputs, ratios, machines.  Pure.

Of outputs a judgement holds digests.  A task promises that an accepted output is within its tolerance, no more: other
bits are no fault, for machines round differently, and a kernel may add up in another order each time.  Other inputs
are one: what was drawn here is not what was drawn there, and nothing was replayed.
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
    """What a case returned here, beside what it returned when it was judged; `close` is within the task's tolerance."""

    SAME = "same bits"
    CLOSE = "close"
    ELSEWHERE = "other inputs"
    UNKNOWN = "not recorded"


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A case as it was judged, and as it came out here; `here` is None where it was not played."""

    judged: CaseResult
    here: CaseResult | None

    @property
    def is_same(self) -> bool:
        is_played = self.here is not None and self.here.verdict is self.judged.verdict
        return is_played and self.outputs is not Outputs.ELSEWHERE

    @property
    def outputs(self) -> Outputs | None:
        """None where there are none that both times were accepted."""
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
        """To the anchor: then, and here."""
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
    """All of a judgement beside all of its replay `here`."""

    judged: Judgement
    here: Judgement

    @cached_property
    def pairs(self) -> tuple[Pair, ...]:
        """Cases by kind and place."""
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
        """0 where all is the same, 1 where it is not; 3 where judging failed here, which says nothing of the file."""
        return 3 if self.here.verdict is Verdict.JUDGING_ERROR else int(not self.is_same)

    @property
    def outputs(self) -> Counter[Outputs]:
        """How many cases' outputs are how."""
        return Counter(pair.outputs for pair in self.pairs if pair.outputs)

    @property
    def machines(self) -> dict[str, list[Any]]:
        """What of the machine is not the same: then, and here."""
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
        """What follows from all of it."""
        count, cases = self.outputs, f"{self.outputs.total()} accepted cases"
        if count[Outputs.ELSEWHERE]:
            return (
                f"No replay: in {count[Outputs.ELSEWHERE]} of {cases} the task drew other inputs from the same seeds. "
                f"It was judged with torch {self.judged.machine.torch}, and here is {self.here.machine.torch}."
            )
        if not self.is_same:
            return f"Not the same: {self.judged.verdict}, and {self.here.verdict} here."
        if count[Outputs.UNKNOWN]:
            return "The same verdicts. Inputs and outputs can't be compared: the judgement is older than their digests."
        if count[Outputs.CLOSE]:
            return (
                f"The same verdicts, on the same inputs. In {count[Outputs.CLOSE]} of {cases} the output has other "
                "bits, within the task's tolerance: machines round differently, and another order of adding up does."
            )
        outputs = " The same outputs, bit for bit." if count else ""
        return f"The same verdicts, on the same inputs.{outputs}"
