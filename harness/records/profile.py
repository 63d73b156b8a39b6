"""Where a call's time went, as reported by the player's profiler.  Untrusted, and never used for ranking."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, PositiveInt

from harness.records.counters import Counters
from harness.records.fields import Microseconds, Model, ShortLine, Spread, omitted

MAX_OPERATIONS = 20


class Operation(Model):
    """All calls of one operation or kernel; `own_us` excludes operations that it calls."""

    name: ShortLine
    on_device: bool = Field(description="whether it ran on the device; otherwise on the host")
    calls: PositiveInt
    own_us: Spread


Count = Annotated[int, Field(ge=0, le=2**63 - 1)]
"""As the kernel counts, in 64 bits."""


class CpuCounters(Model):
    """What another call cost the CPU, as the kernel and the processor count it for the player's process.

    The processor's counters are None if this machine does not show them.
    """

    cpu_us: Spread = Field(description="CPU time of all threads")
    page_faults: Count
    context_switches: Count = Field(description="of the threads that exist at the end of the call")
    cycles: Count | None = Field(default=None, description="this and what follows: in user mode")
    instructions: Count | None = None
    cache_misses: Count | None = Field(default=None, description="of the last level")
    branch_misses: Count | None = None


class Profile(Model):
    """One call of `custom_kernel`, slower than an unprofiled one.

    Host time in `call_us` that no operation accounts for was spent outside torch, or waiting.
    """

    call_us: Microseconds
    operations: Annotated[tuple[Operation, ...], Field(max_length=MAX_OPERATIONS)]
    counters: Counters | None = Field(default=None, description="GPU only: another call, under the vendor's profiler")
    cpu: CpuCounters | None = Field(
        default=None, exclude_if=omitted, description="CPU only: another call, without a profiler"
    )

    @property
    def elsewhere_us(self) -> float:
        """Host time of the call spent outside torch, or waiting, in microseconds."""
        return max(0.0, self.call_us - sum(one.own_us for one in self.operations if not one.on_device))
