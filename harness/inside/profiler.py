"""The player's side of a profile: one call of the kernel under torch's profiler, and one under the GPU's vendor's.

It runs beside the submission, which may patch all of it: a profile is the participant's own word, and ranks nothing.
What torch does not run (Python itself, numpy, what numba or JAX compiled) is in no operation, only in the whole call.
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

_MAX_NAME = 200
"""C++ spells out every template's arguments."""


def profile_call(kernel: Callable[[Any], Any], data: Any, device: str) -> tuple[Any, dict[str, Any]]:
    """A call's output, and the fields of its profile: times in microseconds, the longest first.

    Args:
        device: torch's name of the one that the kernel runs on; empty or `cpu` for the host.
    """
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # else it writes into what the submission prints
    from torch import profiler

    is_gpu = device == "cuda"
    kinds = [profiler.ProfilerActivity.CPU, *([profiler.ProfilerActivity.CUDA] if is_gpu else [])]
    with profiler.profile(activities=kinds):
        pass  # the first one loads what all of them need
    with profiler.profile(activities=kinds) as watched:
        start = time.perf_counter_ns()
        output = kernel(data)
        if is_gpu:
            torch.cuda.synchronize()
        call_us = (time.perf_counter_ns() - start) / 1e3
    rows = [_row(event) for event in watched.key_averages()]
    rows = sorted((row for row in rows if row[3] > 0), key=lambda row: -row[3])
    return output, {"call_us": call_us, "operations": rows[:MAX_OPERATIONS]}


def _row(event: Any) -> tuple[str, bool, int, float]:
    """Name, whether it is of the device, how often, and its own microseconds, without those of what it called."""
    is_device = event.device_type.name != "CPU"
    own_us = event.self_device_time_total if is_device else event.self_cpu_time_total
    return str(event.key)[:_MAX_NAME], is_device, int(event.count), float(own_us)


def watch_call(kernel: Callable[[Any], Any], data: Any, device: str) -> Any:
    """A call's output.  A vendor's profiler that has started this process looks at this call, and at nothing else."""
    if device != "cuda":
        return kernel(data)
    torch.cuda.synchronize()
    with _amd_region() if torch.version.hip else torch.cuda.profiler.profile():
        output = kernel(data)
        torch.cuda.synchronize()
    return output


@contextlib.contextmanager
def _amd_region() -> Iterator[None]:
    """What `rocprofv3 --selected-regions` looks at; with --marker-trace it has put these functions into our process."""
    roctx = ctypes.CDLL(None)
    roctx.roctxProfilerResume(ctypes.c_uint64(0))
    try:
        yield
    finally:
        roctx.roctxProfilerPause(ctypes.c_uint64(0))
