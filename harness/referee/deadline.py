"""When a phase ends, and how long each call in it may take."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass
class Deadline:
    """When a phase ends, and how long each call in it may take."""

    phase_s: float
    phase_ends: float
    call_s: float

    @classmethod
    def of(cls, phase_s: float, call_s: float) -> Deadline:
        return cls(phase_s, time.monotonic() + phase_s, call_s)

    @property
    def is_over(self) -> bool:
        return time.monotonic() > self.phase_ends

    @property
    def spent_s(self) -> float:
        """Seconds of the phase used so far."""
        return time.monotonic() - (self.phase_ends - self.phase_s)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Do not count the time of the block; extends the phase by as much."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.phase_ends += time.monotonic() - began

    def next_call(self) -> tuple[float, str]:
        """When the next call must end, and the message if it doesn't."""
        ends = time.monotonic() + self.call_s
        if ends < self.phase_ends:
            return ends, f"A call took more than {self.call_s:g} s."
        return self.phase_ends, f"All calls together took more than {self.phase_s:g} s."
