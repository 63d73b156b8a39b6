"""Per-kernel counters of one call, measured by the GPU vendor's profiler.  Untrusted, and never used for ranking.

    ncu         NVIDIA: time, throughput relative to the peak, occupancy, registers, occupancy limiter
    rocprofv3   AMD: time and registers; its other counters differ between chips and are not collected

Both run inside the sandbox with the submission, which could forge every number and name here.
"""

from __future__ import annotations

import re
import warnings
from typing import Annotated, Literal, Self

from pydantic import Field, NonNegativeInt, PositiveInt, StringConstraints, model_validator

from harness.records.fields import Model, ShortLine, Spread, omitted

MAX_KERNELS = 20
"""Kernels kept per call: those that took the longest."""
MAX_LAUNCHES = 50
"""Launches of a call that ncu profiles: it replays each about forty times."""
MAX_REGEX = 200
"""Characters of a `LaunchFilter.kernel`."""
MAX_SKIP = 1_000_000
MAX_REPORT = 64 << 20
"""Size limit of one report, in bytes."""


class LaunchFilter(Model):
    """The launches of a call that ncu profiles: of kernels that match, without the first `skip`, at most `count`.

    `kernel` is a regular expression for ncu, found anywhere in a kernel's name without its parameters; "" matches all.
    """

    kernel: Annotated[str, StringConstraints(max_length=MAX_REGEX)] = ""
    skip: Annotated[int, Field(ge=0, le=MAX_SKIP)] = 0
    count: Annotated[int, Field(ge=1, le=MAX_LAUNCHES)] = MAX_LAUNCHES

    @property
    def options(self) -> tuple[str, ...]:
        """The options of ncu."""
        kernel = ("--kernel-name", f"regex:{self.kernel}") if self.kernel else ()
        skip = ("--launch-skip", str(self.skip)) if self.skip else ()
        return (*kernel, *skip, "--launch-count", str(self.count))

    def __str__(self) -> str:
        """As in a command: `kernel=gemm skip=3 count=1`; "" if it is the default."""
        return " ".join(f"{name}={value}" for name, value in self.model_dump(exclude_defaults=True).items())

    @property
    def in_words(self) -> str:
        """What it leaves out, to say why no launch is left; "" if nothing."""
        kernel = f"kernels that match {self.kernel}" if self.kernel else ""
        skip = f"launches after the first {self.skip}" if self.skip else ""
        return " and ".join(filter(None, (kernel, skip)))


def find_regex_fault(text: str) -> str:
    """What is wrong with a regular expression, as far as Python knows ncu's; "" if nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            re.compile(text)
        except (re.error, ValueError, OverflowError, RecursionError) as error:
            return str(error)
    return ""


Share = Annotated[float, Field(ge=0, le=2)]
"""Fraction of a peak.  Counters collected in several passes may add up to slightly more than 1."""
Limiter = Literal["registers", "shared memory", "blocks"]


class Kernel(Model):
    """All launches of one kernel in the call.  Shares are time-weighted means; None if the tool does not report it."""

    name: ShortLine
    launches: PositiveInt
    time_us: Spread
    compute: Share | None = None
    memory: Share | None = None
    occupancy: Share | None = None
    registers: NonNegativeInt | None = Field(default=None, description="registers per thread, maximum over launches")
    limiter: Limiter | None = Field(default=None, description="what limits the number of resident warps")


class Counters(Model):
    """Result of a vendor's profiler: kernels, or why there are none.

    `report_bytes` is 0 if no report is kept.  `chosen` is the participant's filter of launches; without one, the first
    `MAX_LAUNCHES` were profiled.
    """

    tool: Literal["ncu", "rocprofv3"]
    kernels: Annotated[tuple[Kernel, ...], Field(max_length=MAX_KERNELS)] = ()
    trouble: ShortLine = ""
    report_bytes: Annotated[int, Field(ge=0, le=MAX_REPORT)] = 0
    chosen: LaunchFilter | None = Field(default=None, exclude_if=omitted)

    @model_validator(mode="after")
    def _has_kernels_or_trouble(self) -> Self:
        if bool(self.kernels) == bool(self.trouble):
            raise ValueError("counters need either kernels or a reason why there are none")
        return self

    def report_name(self, number: int) -> str:
        """File name for profile `number`, counted from 1 in benchmark order; never derived from the submission."""
        return f"profile-{number}.{'ncu-rep' if self.tool == 'ncu' else 'csv'}"
