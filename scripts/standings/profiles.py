"""A profile in lines for people: what a call's time went into, and what the GPU's vendor's profiler counted of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.records.counters import Counters, Kernel
from harness.records.judgement import CaseResult
from harness.records.profile import Profile
from scripts.common.text import format_percent, format_us

WORD = "A profile is one call, watched, and slower for it; it is your own process's word, and ranks nothing."

_BUSY = 0.6
"""As Nsight Compute has it: where neither arithmetic nor memory is used to this share of its peak, it is latency."""
_FEW_WARPS = 0.5


@dataclass(frozen=True, kw_only=True)
class Part:
    """`calls` is None for what no operation was seen of; `name` is a participant's text."""

    name: str
    where: str
    calls: int | None
    own_us: float
    share: float


def parts_of(profile: Profile, most: int = 8) -> tuple[Part, ...]:
    """The longest operations, the others of host and device together, and what torch saw nothing of."""
    parts: list[Part] = []
    for where, on_device in (("device", True), ("host", False)):
        operations = [one for one in profile.operations if one.on_device is on_device]
        shown, rest = operations[:most], operations[most:]
        parts += (_part(profile, one.name, where, one.calls, one.own_us) for one in shown)
        if rest:
            calls = sum(one.calls for one in rest)
            parts.append(_part(profile, f"{len(rest)} more", where, calls, sum(one.own_us for one in rest)))
    if profile.elsewhere_us:
        parts.append(_part(profile, "outside of torch, or waiting", "host", None, profile.elsewhere_us))
    return tuple(parts)


def _part(profile: Profile, name: str, where: str, calls: int | None, own_us: float) -> Part:
    return Part(name=name, where=where, calls=calls, own_us=own_us, share=own_us / profile.call_us)


@dataclass(frozen=True, kw_only=True)
class KernelTable:
    """A table of kernels: of each column the heading, ending in `:` where it is of numbers.

    The first cell of a row is a participant's text.
    """

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def kernel_table(counters: Counters) -> KernelTable:
    """The kernels of a call, the longest first, without the columns that the tool has nothing for."""
    head = ("Kernel", "Launches:", "Time:", "Compute:", "Memory:", "Occupancy:", "Registers:", "Limited by")
    rows = [_kernel_row(kernel) for kernel in counters.kernels]
    used = [column for column in range(len(head)) if any(row[column] for row in rows)]
    return KernelTable(
        head=tuple(head[column] for column in used),
        rows=tuple(tuple(row[column] for column in used) for row in rows),
    )


def _kernel_row(kernel: Kernel) -> tuple[str, ...]:
    shares = (kernel.compute, kernel.memory, kernel.occupancy)
    return (
        kernel.name,
        str(kernel.launches),
        format_us(kernel.time_us),
        *("" if share is None else format_percent(share) for share in shares),
        "" if kernel.registers is None else str(kernel.registers),
        limit_of(kernel),
    )


def limit_of(kernel: Kernel) -> str:
    """What keeps a kernel from being faster, by its counters; "" if there are none."""
    if kernel.compute is None or kernel.memory is None:
        return ""
    if max(kernel.compute, kernel.memory) >= _BUSY:
        return "compute" if kernel.compute >= kernel.memory else "memory"
    is_empty = kernel.limiter and kernel.occupancy is not None and kernel.occupancy < _FEW_WARPS
    return f"latency; few warps by {kernel.limiter}" if is_empty else "latency"


def troubles_of(profiles: Sequence[CaseResult]) -> tuple[str, ...]:
    """Why a vendor's profiler shows nothing, each reason once.  May hold a participant's text."""
    counters = (case.profile.counters for case in profiles if case.profile)
    return tuple(dict.fromkeys(one.trouble for one in counters if one and one.trouble))
