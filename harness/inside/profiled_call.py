"""The player's side of a profile: one call under torch's profiler, and one under the GPU vendor's profiler.

This code runs in the submission's process, and the submission may patch all of it.  A profile is only the
participant's claim and never affects a rank.  Operations include only what torch runs.  Everything else (Python
itself, numpy, code compiled by numba or JAX) counts only in the time of the whole call.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

from harness.inside.protocol import MAX_OPERATIONS

_OWN_WORK = frozenset((
    "Activity Buffer Request", "Buffer Flush", "Command Buffer Full", "Context Sync", "Lazy Function Loading",
    "Runtime Triggered Module Loading",
))  # fmt: skip
"""CUPTI's own work, and waiting, among the operations of a GPU."""
_OperationRow = tuple[str, bool, int, float]
_MAX_NAME = 200
"""Names can be long: C++ spells out every template argument."""


def profile_call(kernel: Callable[[Any], Any], data: Any, device: str) -> tuple[Any, dict[str, Any]]:
    """A call's output, and the fields of its profile: times in microseconds, longest first.

    Args:
        device: torch's name for the kernel's device; empty or `cpu` for the host.
    """
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # otherwise it logs to the submission's output
    from torch import profiler

    is_gpu = device == "cuda"
    kinds = [profiler.ProfilerActivity.CPU, *([profiler.ProfilerActivity.CUDA] if is_gpu else [])]
    with profiler.profile(activities=kinds):
        pass  # the first profile loads what all profiles need
    with profiler.profile(activities=kinds) as profile:
        start = time.perf_counter_ns()
        output = kernel(data)
        if is_gpu:
            torch.cuda.synchronize()
        call_us = (time.perf_counter_ns() - start) / 1e3
    rows = [_row(event) for event in profile.key_averages() if event.key not in _OWN_WORK]
    return output, {"call_us": call_us, "operations": _longest([row for row in rows if row[3] > 0])}


def _longest(rows: list[_OperationRow]) -> list[_OperationRow]:
    """At most `MAX_OPERATIONS` rows, longest first: the shortest operations of the device, or the host, share a row."""
    rows = sorted(rows, key=_us_of, reverse=True)
    if len(rows) <= MAX_OPERATIONS:
        return rows
    longest, others = rows[: MAX_OPERATIONS - 2], rows[MAX_OPERATIONS - 2 :]
    for is_device in (True, False):
        same = [row for row in others if row[1] is is_device]
        if len(same) < 2:
            longest += same
        else:
            longest.append((f"{len(same)} others", is_device, sum(row[2] for row in same), sum(map(_us_of, same))))
    return sorted(longest, key=_us_of, reverse=True)


def _us_of(row: _OperationRow) -> float:
    return row[3]


def _row(event: Any) -> _OperationRow:
    """An operation's name, whether the device ran it, its calls, and its own microseconds without nested operations."""
    is_device = event.device_type.name != "CPU"
    own_us = event.self_device_time_total if is_device else event.self_cpu_time_total
    return str(event.key)[:_MAX_NAME], is_device, int(event.count), float(own_us)


def counted_call(kernel: Callable[[Any], Any], data: Any, device: str) -> Any:
    """A call's output.  If a vendor's profiler started this process, it records this call and nothing else."""
    if device != "cuda":
        return kernel(data)
    torch.cuda.synchronize()
    with _amd_region() if torch.version.hip else torch.cuda.profiler.profile():
        output = kernel(data)
        torch.cuda.synchronize()
    return output


@contextlib.contextmanager
def _amd_region() -> Iterator[None]:
    """The region that `rocprofv3 --selected-regions` records.  Its --marker-trace loads these functions into us."""
    roctx = ctypes.CDLL(None)
    roctx.roctxProfilerResume(ctypes.c_uint64(0))
    try:
        yield
    finally:
        roctx.roctxProfilerPause(ctypes.c_uint64(0))
