"""Where a call's time went, as the player's profiler tells it: the participant's own word, which ranks nothing."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, PositiveInt

from harness.records.counters import Counters
from harness.records.fields import Line, Microseconds, Model, Spread

MAX_OPERATIONS = 20


class Operation(Model):
    """All calls of one operation or kernel; `own_us` is without what it called in turn."""

    name: Line
    on_device: bool = Field(description="whether the device did it; else the host")
    calls: PositiveInt
    own_us: Spread


class Profile(Model):
    """One call of `custom_kernel`, longer than any other for being watched.

    On the host, what `operations` leave of `call_us` went into what torch does not run, or into waiting.
    """

    call_us: Microseconds
    operations: Annotated[tuple[Operation, ...], Field(max_length=MAX_OPERATIONS)]
    counters: Counters | None = Field(default=None, description="of another call, on a GPU, by its vendor's profiler")

    @property
    def elsewhere_us(self) -> float:
        """What of the call the host did outside of torch, or waited."""
        return max(0.0, self.call_us - sum(one.own_us for one in self.operations if not one.on_device))
