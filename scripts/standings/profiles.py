"""Format a profile for people: where a call's time went, and the counters of the GPU vendor's profiler."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.records.counters import Counters, Kernel
from harness.records.judgement import CaseResult, Judgement, Machine
from harness.records.profile import MAX_OPERATIONS, CpuCounters, Profile
from scripts.common.text import format_percent, format_us, in_words, plain, spreadsheet_text

WORD = "A profile shows one call, slowed by profiling. It comes from your own process, and does not rank."

_COLUMNS = (
    "machine", "case", "profiler", "name", "where", "calls", "time_us", "share", "compute", "memory", "occupancy",
    "registers", "limited_by",
)  # fmt: skip

_BUSY = 0.6
"""As in Nsight Compute: if neither compute nor memory reaches this share of its peak, latency is the limit."""
_FEW_WARPS = 0.5


@dataclass(frozen=True, kw_only=True)
class Part:
    """A part of a call's time.  `calls` is None for time outside of operations; `name` is a participant's text."""

    name: str
    where: str
    calls: int | None
    own_us: float
    share: float


def parts_of(profile: Profile, most: int = 8) -> tuple[Part, ...]:
    """The longest operations of device and host, the sum of the others, and the time that torch did not see."""
    parts: list[Part] = []
    for where, on_device in (("device", True), ("host", False)):
        operations = [one for one in profile.operations if one.on_device is on_device]
        shown, rest = operations[:most], operations[most:]
        parts += (_part(profile, one.name, where, one.calls, one.own_us) for one in shown)
        if rest:
            calls = sum(one.calls for one in rest)
            parts.append(_part(profile, "the others", where, calls, sum(one.own_us for one in rest)))
    if profile.elsewhere_us:
        parts.append(_part(profile, "outside of torch, or waiting", "host", None, profile.elsewhere_us))
    return tuple(parts)


def _part(profile: Profile, name: str, where: str, calls: int | None, own_us: float) -> Part:
    return Part(name=name, where=where, calls=calls, own_us=own_us, share=own_us / profile.call_us)


def kernel_table(counters: Counters) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """The head and the rows of a table of a call's kernels, longest first, without empty columns.

    A heading that ends in `:` marks a column of numbers.  The first cell of a row is a participant's text.
    """
    head = ("Kernel", "Launches:", "Time:", "Compute:", "Memory:", "Occupancy:", "Registers:", "Limited by")
    rows = [_kernel_row(kernel) for kernel in counters.kernels]
    used = [column for column in range(len(head)) if any(row[column] for row in rows)]
    return tuple(head[column] for column in used), [tuple(row[column] for column in used) for row in rows]


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
    """A kernel's bottleneck by its counters; "" if there are none."""
    if kernel.compute is None or kernel.memory is None:
        return ""
    if max(kernel.compute, kernel.memory) >= _BUSY:
        return "compute" if kernel.compute >= kernel.memory else "memory"
    is_empty = kernel.limiter and kernel.occupancy is not None and kernel.occupancy < _FEW_WARPS
    return f"latency; few warps, limited by {kernel.limiter}" if is_empty else "latency"


def cpu_sentences(cpu: CpuCounters) -> str:
    """What one more call cost the CPU."""
    counts = [(cpu.page_faults, "page fault"), (cpu.context_switches, "context switch")]
    used = ", ".join([f"{format_us(cpu.cpu_us)} of CPU time", *(_number(*count) for count in counts)])
    per_cycle = f"{cpu.instructions / cpu.cycles:.2f} instructions per cycle" if cpu.instructions and cpu.cycles else ""
    misses = [(cpu.cache_misses, "cache miss"), (cpu.branch_misses, "branch miss")]
    counted = ", ".join(filter(None, [per_cycle, *(_number(*miss) for miss in misses)]))
    return f"One more call, without a profiler: {used}." + (f" In user mode: {counted}." if counted else "")


def _number(number: int | None, thing: str) -> str:
    """A count with its unit; empty if it is unknown."""
    ending = "" if number == 1 else "es" if thing.endswith(("s", "ch")) else "s"
    return "" if number is None else f"{number:,} {thing}{ending}"


def troubles_of(profiles: Sequence[CaseResult]) -> tuple[str, ...]:
    """The reasons why a vendor's profiler shows nothing, each once.  May contain a participant's text."""
    counters = (case.profile.counters for case in profiles if case.profile)
    return tuple(dict.fromkeys(one.trouble for one in counters if one and one.trouble))


def machine_in_words(machine: Machine) -> str:
    """The device that was profiled, and the processor beside a GPU.  The text is the judge's machine's."""
    return machine.device if machine.device == machine.cpu else f"{machine.device}, {machine.cpu}"


def to_csv(judgement: Judgement) -> str:
    """The operations and kernels of a judgement's profiles as CSV; shares are fractions, of the call or of a peak."""
    out = io.StringIO()
    table = csv.DictWriter(out, _COLUMNS, restval="", lineterminator="\n")
    table.writeheader()
    machine = machine_in_words(judgement.machine)
    for case in judgement.profiles:
        if case.profile:
            for row in (*_operation_rows(case.profile), *_cpu_rows(case.profile), *_counter_rows(case.profile)):
                cells = {"machine": machine, "case": in_words(case.params)} | row
                table.writerow({name: _csv_cell(value) for name, value in cells.items()})
    return out.getvalue()


def _operation_rows(profile: Profile) -> Iterator[dict[str, object]]:
    for part in parts_of(profile, most=MAX_OPERATIONS):
        yield {
            "profiler": "torch",
            "name": part.name,
            "where": part.where,
            "calls": part.calls,
            "time_us": part.own_us,
            "share": part.share,
        }


def _cpu_rows(profile: Profile) -> Iterator[dict[str, object]]:
    """The time in `time_us`, and all counts in `calls`."""
    if profile.cpu:
        yield {"profiler": "cpu", "name": "cpu_time", "where": "host", "time_us": profile.cpu.cpu_us}
        for name, count in profile.cpu.model_dump(exclude={"cpu_us"}, exclude_none=True).items():
            yield {"profiler": "cpu", "name": name, "where": "host", "calls": count}


def _counter_rows(profile: Profile) -> Iterator[dict[str, object]]:
    for kernel in profile.counters.kernels if profile.counters else ():
        shares = kernel.model_dump(include={"time_us", "compute", "memory", "occupancy", "registers"})
        tool = profile.counters.tool if profile.counters else ""
        yield {
            "profiler": tool,
            "name": kernel.name,
            "where": "device",
            "calls": kernel.launches,
            **shares,
            "limited_by": limit_of(kernel),
        }


def _csv_cell(value: object) -> object:
    if isinstance(value, float):
        return f"{value:.6g}"
    return spreadsheet_text(" ".join(plain(value).split())) if isinstance(value, str) else value
