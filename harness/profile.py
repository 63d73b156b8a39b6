"""Where a call's time went, as the player's profiler tells it: the participant's own word, which ranks nothing."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, PositiveInt

from harness.counters import Counters
from harness.fields import Line, Microseconds, Model, Spread
from harness.protocol import MAX_OPERATIONS, Profiled


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

    @classmethod
    def of(cls, profiled: Profiled) -> Self:
        operations = (
            Operation(name=name, on_device=on_device, calls=calls, own_us=own_us)
            for name, on_device, calls, own_us in profiled.operations
        )
        # Nothing takes no time at all, whatever a liar says.
        return cls(call_us=max(profiled.call_us, 0.001), operations=tuple(operations))

    @property
    def elsewhere_us(self) -> float:
        """What of the call the host did outside of torch, or waited."""
        return max(0.0, self.call_us - sum(one.own_us for one in self.operations if not one.on_device))
