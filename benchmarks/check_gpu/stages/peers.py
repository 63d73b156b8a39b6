"""Other ways to time kernels, to which stage 4 compares the judge.  Each runs in its own process.

    replay      one CUDA graph of many calls, each on uncached inputs; its time divided by their number
    cupti       the device's own time for a call's kernels, after one flush (from CUPTI, by torch's profiler)
    queued      by the same timestamps, calls that follow each other on uncached inputs, as in the judge's windows: from
                the start of the first kernel to the end of the last, divided by the number of calls
    do_bench    triton.testing.do_bench with its defaults: its own warm-ups and flushes, the median
    kernelbot   KernelBot's method, written from its description: after tests, the mean of single calls by CUDA events,
                each on fresh inputs and after one flush, until the standard error is below 0.1 % or time is up

    python -m benchmarks.check_gpu.stages.peers WAY FOLDER DEVICE TESTS BENCHMARKS     a line of JSON per benchmark

FOLDER contains reference.py and submission.py, DEVICE is a torch device, and cases are lists of parameters in JSON.  On
a CPU, perf_counter times the calls, and a loop replaces the graph.  If a way lacks something that it needs, it prints
the single line `{"skipped": why}`.
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

PeerCase = dict[str, Any]

_ERROR = 0.001
_CALLS = 3, 100
"""The least and the most calls, whatever the standard error."""
_LONGEST_S = 30.0
_HOST_CACHE_BYTES = 32 << 20
_COPIES = 8, 512
_REPLAY_S = 0.2
_REPLAYS = 5
_WATCHED = 10
_QUEUED = 4, 50
_QUEUED_BYTES = 2 << 30
"""The least and the most calls, and the size of their inputs."""
_LAUNCH_CYCLES = 1_000_000, 60_000
"""How long the device waits until all calls are launched: in all, and for each call."""
_NO_KERNELS = ("Activity Buffer Request", "Context Sync")
"""Device rows of the profiler that are not kernels or copies: its own work, and waiting."""


class _CpuTimer:
    """A CPU's clock and caches."""

    def __init__(self) -> None:
        import torch

        self.cache_bytes = _HOST_CACHE_BYTES
        self._sweep = torch.empty(2 * self.cache_bytes, dtype=torch.uint8, device="cpu")

    def flush(self) -> None:
        self._sweep.zero_()

    def time(self, run: Callable[[], Any]) -> float:
        """The time of one run, in microseconds."""
        start = time.perf_counter_ns()
        run()
        return (time.perf_counter_ns() - start) / 1e3

    def record(self, calls: list[Callable[[], Any]]) -> Callable[[], Any]:
        """Combine these calls into one function."""
        return lambda: [call() for call in calls]


class _GpuTimer:
    """A GPU's events, L2 cache and graphs."""

    def __init__(self) -> None:
        import torch

        self.cache_bytes = int(torch.cuda.get_device_properties(0).L2_cache_size)
        self._sweep = torch.empty(2 * self.cache_bytes, dtype=torch.uint8, device="cuda")

    def flush(self) -> None:
        """Flush without waiting: the host launches the call's kernels meanwhile, so launch latency is not counted."""
        import torch

        torch.cuda.synchronize()
        self._sweep.zero_()

    def time(self, run: Callable[[], Any]) -> float:
        """The time of one run, in microseconds."""
        import torch

        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        start.record()
        run()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) * 1e3

    def record(self, calls: list[Callable[[], Any]]) -> Callable[[], Any]:
        """Record these calls as one graph."""
        import torch

        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for call in calls:
                call()
        return graph.replay


class _PeerBench:
    """The process of one way: the task's functions, the kernel, and a device's clock."""

    def __init__(self, folder: str, device: str, tests: list[PeerCase]) -> None:
        import torch

        torch.set_default_device(device)
        sys.path.insert(0, folder)
        self._reference = importlib.import_module("reference")
        self.kernel = importlib.import_module("submission").custom_kernel
        self.device = device
        self.clock = _CpuTimer() if device == "cpu" else _GpuTimer()
        self.tests = tests
        self._seed = 0

    def fresh(self, params: PeerCase) -> Any:
        self._seed += 1
        return self._reference.generate_input(**params | {"seed": self._seed})

    def call_checked(self, params: PeerCase) -> float:
        """Time one call on fresh inputs after a flush, in microseconds.  Raises ValueError if the output is wrong."""
        data, outputs = self.fresh(params), []
        self.clock.flush()
        us = self.clock.time(lambda: outputs.append(self.kernel(data)))
        is_right, message = self._reference.check_implementation(data, outputs[0])
        if not is_right:
            raise ValueError(message)
        return us

    # ------------------------------------------------------------------ the ways; each returns microseconds

    def replay(self, params: PeerCase) -> float:
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

    def cupti(self, params: PeerCase) -> float:
        import torch
        from torch.profiler import ProfilerActivity, profile

        times_us = []
        for _ in range(_WATCHED + 1):  # the first one initializes the profiler
            data = self.fresh(params)
            self.clock.flush()
            torch.cuda.synchronize()
            with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as watched:
                self.kernel(data)
                torch.cuda.synchronize()
            rows = [row for row in watched.key_averages() if row.device_type.name != "CPU"]
            times_us.append(sum(float(row.self_device_time_total) for row in rows if row.key not in _NO_KERNELS))
        return median(times_us[1:])

    def queued(self, params: PeerCase) -> float:
        import torch
        from torch.profiler import ProfilerActivity, profile

        fewest, most = _QUEUED
        held = sum(part.numel() * part.element_size() for part in self.fresh(params) if hasattr(part, "numel"))
        inputs = [self.fresh(params) for _ in range(max(fewest, min(most, _QUEUED_BYTES // held)))]
        fixed, each = _LAUNCH_CYCLES
        times_us = []
        for _ in range(_WATCHED + 1):  # the first one initializes the profiler
            self.clock.flush()
            torch.cuda.synchronize()
            with profile(activities=[ProfilerActivity.CUDA]) as watched:
                torch.cuda._sleep(fixed + each * len(inputs))  # type: ignore[no-untyped-call]
                outputs = [self.kernel(one) for one in inputs]
                torch.cuda.synchronize()
            del outputs
            spans = sorted(
                (event.time_range.start, event.time_range.end)
                for event in watched.events()
                if event.device_type.name != "CPU" and event.name not in _NO_KERNELS
            )[1:]  # the first is the sleep
            times_us.append((max(end for _, end in spans) - spans[0][0]) / len(inputs))
        return float(median(times_us[1:]))

    def do_bench(self, params: PeerCase) -> float:
        testing = importlib.import_module("triton.testing")
        data = self.fresh(params)
        return float(testing.do_bench(lambda: self.kernel(data), return_mode="median")) * 1e3

    def kernelbot(self, params: PeerCase) -> float:
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
    """The relative standard error of the mean of two or more times."""
    return stdev(times) / math.sqrt(len(times)) / fmean(times)


def why_not(way: str, device: str) -> str:
    """What a way lacks on this machine; "" if it can run."""
    if way == "do_bench" and importlib.util.find_spec("triton") is None:
        return "triton is not installed"
    if way in ("do_bench", "cupti", "queued") and device == "cpu":
        return "it times only GPUs"
    if way in ("cupti", "queued"):
        from torch.profiler import ProfilerActivity, supported_activities

        if ProfilerActivity.CUDA not in supported_activities():  # type: ignore[no-untyped-call]
            return "this torch has no CUPTI"
    return ""


def _say(line: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def main(way: str, folder: str, device: str, tests: str, benchmarks: str) -> None:
    if reason := why_not(way, device):
        _say({"skipped": reason})
        return
    bench = _PeerBench(folder, device, json.loads(tests))
    if way == "kernelbot":
        for params in bench.tests:
            bench.call_checked(params)
    for params in json.loads(benchmarks):
        start = time.monotonic()
        us = getattr(bench, way)(params)
        _say({"us": us, "seconds": time.monotonic() - start})


if __name__ == "__main__":
    main(*sys.argv[1:])
