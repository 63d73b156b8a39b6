"""What a GPU vendor's profiler says of a call, kernel by kernel: the participant's own word, which ranks nothing.

    ncu         NVIDIA's: time, throughput against the peak, occupancy, registers, what the occupancy is limited by
    rocprofv3   AMD's: time and registers; its counters differ from chip to chip, and are not asked for

Both run behind the walls, beside the submission, which could have written each of these numbers and names.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from harness.records.fields import Line, Model, Spread

MAX_KERNELS = 20
"""Of one call: the longest."""
MAX_REPORT = 64 << 20
"""Of one report, in bytes."""

Share = Annotated[float, Field(ge=0, le=2)]
"""Of a peak.  Counters of several passes may come to a little more than there is."""
Limiter = Literal["registers", "shared memory", "blocks"]


class Kernel(Model):
    """All launches of one kernel in the call; shares are means over their time.  What the tool does not say is None."""

    name: Line
    launches: PositiveInt
    time_us: Spread
    compute: Share | None = None
    memory: Share | None = None
    occupancy: Share | None = None
    registers: NonNegativeInt | None = Field(default=None, description="of a thread, the most of all launches")
    limiter: Limiter | None = Field(default=None, description="what keeps more warps from being resident at once")


class Counters(Model):
    """What came of a vendor's profiler: kernels, or why there are none.  Where no report is kept it has 0 bytes."""

    tool: Literal["ncu", "rocprofv3"]
    kernels: Annotated[tuple[Kernel, ...], Field(max_length=MAX_KERNELS)] = ()
    trouble: Line = ""
    report_bytes: Annotated[int, Field(ge=0, le=MAX_REPORT)] = 0

    @model_validator(mode="after")
    def _has_kernels_or_trouble(self) -> Self:
        if bool(self.kernels) == bool(self.trouble):
            raise ValueError("counters have kernels, or say why there are none")
        return self

    def report_name(self, number: int) -> str:
        """The file of the profile of that number, from 1, in the order of the benchmarks: a name of our own making."""
        return f"profile-{number}.{'ncu-rep' if self.tool == 'ncu' else 'csv'}"
