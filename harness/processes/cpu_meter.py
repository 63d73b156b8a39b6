"""What a call costs the CPU, measured from outside of the player's process.

    CPU time, page faults, context switches          the kernel counts them for every process
    cycles, instructions, cache and branch misses    by `perf_event_open`, in user mode; many virtual machines hide them

The player's own process counts, with all its threads; for the processor's counters also what it forks meanwhile.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Self

from harness.processes.freezer import stat_fields
from harness.processes.other_work import cpu_ns
from harness.records.profile import CpuCounters

_SYSCALL = {"x86_64": 298, "aarch64": 241}
"""The number of `perf_event_open`."""
_ATTRIBUTES = struct.Struct("=IIQQQQQIIQ")
"""The first version of struct perf_event_attr: type, size, config, period, sample type, read format, flags, unused."""
_INHERIT, _EXCLUDE_KERNEL, _EXCLUDE_HYPERVISOR = 1 << 1, 1 << 5, 1 << 6
_TIMES = 1 | 2
"""The read format: the value, the time for which it was wanted, and the time for which it was counted."""
_CLOSE_ON_EXEC = 8
_MOST_THREADS = 50
"""With more threads, the processor's counters are left out: each thread takes four descriptors."""

PerfEvent = tuple[int, int]
"""Type and config."""
HARDWARE: Mapping[str, PerfEvent] = {
    "cycles": (0, 0),
    "instructions": (0, 1),
    "cache_misses": (0, 3),
    "branch_misses": (0, 5),
}


class CpuMeter:
    """Measures a player from the begin of the block to `stop`; it must be stopped at both moments.

    Afterwards, `counters` are what it used in between; None if the kernel does not show it.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._before: _Usage | None = None
        self._events: dict[str, list[int]] = {}
        self.counters: CpuCounters | None = None

    def __enter__(self) -> Self:
        with contextlib.suppress(OSError):
            self._before = _Usage(self._pid)
            threads = [int(thread) for thread in self._before.switches]
            if len(threads) <= _MOST_THREADS:
                self._events = {name: open_event(event, threads) for name, event in HARDWARE.items()}
        return self

    def stop(self) -> None:
        if not self._before:
            return
        with contextlib.suppress(OSError):
            used, switches = _Usage(self._pid), 0
            for thread, count in used.switches.items():
                switches += max(0, count - self._before.switches.get(thread, 0))
            self.counters = CpuCounters(
                cpu_us=max(0, used.cpu_ns - self._before.cpu_ns) / 1000,
                page_faults=max(0, used.page_faults - self._before.page_faults),
                context_switches=switches,
                **{name: read_event(descriptors) for name, descriptors in self._events.items()},
            )

    def __exit__(self, *_: object) -> None:
        for descriptor in (one for descriptors in self._events.values() for one in descriptors):
            os.close(descriptor)


class _Usage:
    """What a process has used so far.  Raises OSError: the kernel does not say."""

    def __init__(self, pid: int) -> None:
        self.cpu_ns = cpu_ns(pid)
        fields = stat_fields(pid)
        self.page_faults = int(fields[7]) + int(fields[9])
        self.switches = dict(_switches(pid))


def _switches(pid: int) -> Iterator[tuple[str, int]]:
    """The context switches of each thread."""
    for thread in os.listdir(f"/proc/{pid}/task"):
        lines = Path(f"/proc/{pid}/task/{thread}/status").read_text(errors="replace").splitlines()
        yield thread, sum(int(line.rpartition("\t")[2]) for line in lines[1:] if "voluntary_ctxt_switches:\t" in line)


def open_event(event: PerfEvent, threads: list[int]) -> list[int]:
    """Count an event in these threads and in those that they start; none if this machine cannot count it."""
    kind, config = event
    flags = _INHERIT | _EXCLUDE_KERNEL | _EXCLUDE_HYPERVISOR
    attributes = _ATTRIBUTES.pack(kind, _ATTRIBUTES.size, config, 0, 0, _TIMES, flags, 0, 0, 0)
    number, opened = _SYSCALL.get(platform.machine()), list[int]()
    for thread in threads if number else ():
        descriptor = ctypes.CDLL(None).syscall(number, attributes, thread, -1, -1, ctypes.c_ulong(_CLOSE_ON_EXEC))
        if descriptor < 0:
            for one in opened:
                os.close(one)
            return []
        opened.append(descriptor)
    return opened


def read_event(descriptors: list[int]) -> int | None:
    """How often an event occurred; None if the processor did not count it all the time that a thread ran.

    It is estimated if the processor counted it for a part of that time.
    """
    total, found = 0.0, [struct.unpack("QQQ", os.read(descriptor, 24)) for descriptor in descriptors]
    for value, wanted_ns, counted_ns in found:
        if counted_ns:
            total += value * wanted_ns / counted_ns
        elif wanted_ns:
            return None
    return round(total) if found else None
