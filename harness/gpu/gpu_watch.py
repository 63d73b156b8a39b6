"""Observe a GPU during each run of a benchmark, and decide whether the run's times count for ranking.

begin           before the player starts: only the referee may have a context on the GPU
look            right after a window, while the GPU's clocks are still up
end             the state seen, and the reason if the run does not count for ranking
find_trouble    after each player: why the GPU itself may be at fault
"""

from __future__ import annotations

import time

from harness.gpu.gpu_facts import GpuFacts, Meter
from harness.records.times import GpuState

_LEAVE_S = 5.0
"""How long the context of an ended player may take to disappear."""


class GpuWatch:
    """Observes one GPU; without a `meter` it observes nothing."""

    def __init__(self, meter: Meter | None) -> None:
        self._meter = meter
        self._before: GpuFacts | None = None
        self._looks: list[GpuFacts] = []
        self._is_shared = False
        first = meter() if meter else None
        # Not only the referee's context, which exists by now: the machine's facts already report any other process.
        self._ours = max(1, first.others or 0) if first else 0
        self._errors = first.memory_errors if first else None

    @property
    def sees(self) -> bool:
        return self._meter is not None

    def find_trouble(self) -> str:
        """Why the GPU may be at fault for a player's result; "" if no reason is known.

        An error of its memory ends only the context that meets it, so the referee's own still works.
        """
        if self._meter is None or self._errors is None:
            return ""
        new = (self._meter().memory_errors or 0) - self._errors
        return (
            f"the GPU's memory had errors that could not be corrected ({new}): see `nvidia-smi -q -d ECC`"
            if new > 0
            else ""
        )

    def begin(self) -> None:
        if not self._meter:
            return
        give_up = time.monotonic() + (0 if self._is_shared else _LEAVE_S)  # processes still there after that stay
        while (facts := self._meter().without_own(self._ours)).others and time.monotonic() < give_up:
            time.sleep(0.05)
        self._before, self._looks, self._is_shared = facts, [], bool(facts.others)

    def look(self) -> None:
        if self._meter:
            self._looks.append(self._meter())

    def end(self) -> GpuState | None:
        """The GPU's state during the run; None if nothing was observed."""
        if not self._before or not self._looks:
            return None
        last = self._looks[-1]
        reasons = [self._before.hindrance, *(look.hindrance_since(self._before) for look in self._looks)]
        return GpuState(
            clock_mhz=last.clock_mhz,
            temperature_c=last.temperature_c,
            power_w=last.power_w,
            held_back=tuple(dict.fromkeys(reason for look in self._looks for reason in look.held_back)),
            hindrance=next(filter(None, reasons), "")[:500],
        )
