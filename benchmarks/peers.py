"""How others time kernels, each in a process of its own: what `make bench-gpu` holds our times against.

    replay      one CUDA graph of many calls, each on inputs that no cache holds; its time through their number
    cupti       how long the device says that a call's kernels ran, after one flush (torch's profiler asks CUPTI)
    do_bench    triton.testing.do_bench as it comes: its own warm-ups and flushes, the median
    kernelbot   KernelBot's way, written from its description: after tests, the mean of single calls by CUDA events,
                each on fresh inputs and after one flush, until its standard error is below 0.1 % or time is up

    python -m benchmarks.peers WAY FOLDER DEVICE TESTS BENCHMARKS     a line of JSON for each benchmark

FOLDER holds reference.py and submission.py, DEVICE is torch's name, and cases are lists of parameters in JSON.  On a
CPU calls are timed by perf_counter, and a loop takes the graph's place.  What a way needs and has not is said in its
one line, `{"skipped": why}`.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import math
import sys
import time
from collections.abc import Callable
from statistics import fmean, median, stdev
from typing import Any

Params = dict[str, Any]

_ERROR = 0.001
_CALLS = 3, 100
"""No fewer, and no more, whatever the standard error."""
_LONGEST_S = 30.0
_HOST_CACHE_BYTES = 32 << 20
_COPIES = 8, 512
_REPLAY_S = 0.2
_REPLAYS = 5
_WATCHED = 10
_NO_KERNELS = ("Activity Buffer Request", "Context Sync")
"""What the profiler tells of the device beside kernels and copies: its own work, and waiting."""


class _Host:
    """A CPU's clock, and its caches."""

    def __init__(self) -> None:
        import torch

        self.cache_bytes = _HOST_CACHE_BYTES
        self._sweep = torch.empty(2 * self.cache_bytes, dtype=torch.uint8, device="cpu")

    def flush(self) -> None:
        self._sweep.zero_()

    def time(self, run: Callable[[], Any]) -> float:
        """Microseconds."""
        start = time.perf_counter_ns()
        run()
        return (time.perf_counter_ns() - start) / 1e3

    def record(self, calls: list[Callable[[], Any]]) -> Callable[[], Any]:
        """All these calls, one after the other, as one."""
        return lambda: [call() for call in calls]


class _Gpu:
    """A GPU's events, its L2, its graphs."""

    def __init__(self) -> None:
        import torch

        self.cache_bytes = int(torch.cuda.get_device_properties(0).L2_cache_size)
        self._sweep = torch.empty(2 * self.cache_bytes, dtype=torch.uint8, device="cuda")

    def flush(self) -> None:
        """Not awaited: while it is at work the call's kernels are launched, which is no time of theirs then."""
        import torch

        torch.cuda.synchronize()
        self._sweep.zero_()

    def time(self, run: Callable[[], Any]) -> float:
        """Microseconds."""
        import torch

        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        start.record()
        run()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) * 1e3

    def record(self, calls: list[Callable[[], Any]]) -> Callable[[], Any]:
        """All these calls as one graph, recorded now."""
        import torch

        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for call in calls:
                call()
        return graph.replay


class _Bench:
    """One way's process: the task's functions, the kernel, and the clock of a device."""

    def __init__(self, folder: str, device: str, tests: list[Params]) -> None:
        import torch

        torch.set_default_device(device)
        sys.path.insert(0, folder)
        self._reference = importlib.import_module("reference")
        self.kernel = importlib.import_module("submission").custom_kernel
        self.device = device
        self.clock = _Host() if device == "cpu" else _Gpu()
        self.tests = tests
        self._seed = 0

    def fresh(self, params: Params) -> Any:
        self._seed += 1
        return self._reference.generate_input(**params | {"seed": self._seed})

    def call_checked(self, params: Params) -> float:
        """One call on fresh inputs after a flush, in microseconds.  Raises ValueError if its output is wrong."""
        data, outputs = self.fresh(params), []
        self.clock.flush()
        us = self.clock.time(lambda: outputs.append(self.kernel(data)))
        is_right, message = self._reference.check_implementation(data, outputs[0])
        if not is_right:
            raise ValueError(message)
        return us

    # ------------------------------------------------------------------ the ways: a time in microseconds each

    def replay(self, params: Params) -> float:
        data = self.fresh(params)
        self.kernel(data)
        once_us = self.clock.time(lambda: self.kernel(data))
        held = sum(part.numel() * part.element_size() for part in data if hasattr(part, "numel"))
        fewest, most = _COPIES
        copies = min(math.ceil(4 * self.clock.cache_bytes / held), most, round(_REPLAY_S * 1e6 / max(once_us, 1.0)))
        inputs = [self.fresh(params) for _ in range(max(copies, fewest))]
        run = self.clock.record([lambda one=one: self.kernel(one) for one in inputs])  # type: ignore[misc]
        run()
        return median(self.clock.time(run) for _ in range(_REPLAYS)) / len(inputs)

    def cupti(self, params: Params) -> float:
        import torch
        from torch.profiler import ProfilerActivity, profile

        times_us = []
        for _ in range(_WATCHED + 1):  # the first one loads what all of them need
            data = self.fresh(params)
            self.clock.flush()
            torch.cuda.synchronize()
            with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as watched:
                self.kernel(data)
                torch.cuda.synchronize()
            rows = [row for row in watched.key_averages() if row.device_type.name != "CPU"]
            times_us.append(sum(float(row.self_device_time_total) for row in rows if row.key not in _NO_KERNELS))
        return median(times_us[1:])

    def do_bench(self, params: Params) -> float:
        testing = importlib.import_module("triton.testing")
        data = self.fresh(params)
        return float(testing.do_bench(lambda: self.kernel(data), return_mode="median")) * 1e3

    def kernelbot(self, params: Params) -> float:
        self.call_checked(params)  # to warm up
        times_us: list[float] = []
        give_up = time.monotonic() + _LONGEST_S
        fewest, most = _CALLS
        while len(times_us) < most and time.monotonic() < give_up:
            times_us.append(self.call_checked(params))
            if len(times_us) >= fewest and standard_error(times_us) < _ERROR:
                break
        return fmean(times_us)


def standard_error(times: list[float]) -> float:
    """Of the mean of two or more times, as a share of it."""
    return stdev(times) / math.sqrt(len(times)) / fmean(times)


def why_not(way: str, device: str) -> str:
    """What a way needs and has not here; "" if it can be gone."""
    if way == "do_bench" and importlib.util.find_spec("triton") is None:
        return "triton is not installed"
    if way in ("do_bench", "cupti") and device == "cpu":
        return "it times GPUs only"
    if way == "cupti":
        from torch.profiler import ProfilerActivity, supported_activities

        if ProfilerActivity.CUDA not in supported_activities():  # type: ignore[no-untyped-call]
            return "this torch comes without CUPTI"
    return ""


def _say(line: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def main(way: str, folder: str, device: str, tests: str, benchmarks: str) -> None:
    if reason := why_not(way, device):
        _say({"skipped": reason})
        return
    bench = _Bench(folder, device, json.loads(tests))
    if way == "kernelbot":
        for params in bench.tests:
            bench.call_checked(params)
    for params in json.loads(benchmarks):
        start = time.monotonic()
        us = getattr(bench, way)(params)
        _say({"us": us, "seconds": time.monotonic() - start})


if __name__ == "__main__":
    main(*sys.argv[1:])
