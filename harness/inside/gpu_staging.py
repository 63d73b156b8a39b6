"""The player's side of a device that is not the CPU: copy inputs, flush caches, time the call, copy outputs.

    fill     copy the inputs from host memory, where the referee wrote them, to the device, then flush the caches
    time     launch a delay, run one call between two events after it, then wait until the device is idle
    fetch    copy the outputs to host memory, where the referee reads them

This code runs in the submission's process, and the submission may patch all of it.  A time measured here is only the
participant's claim; the referee's clock around each of the three steps bounds it.  On a CPU the same steps are a
rehearsal.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any, Protocol

import torch

from harness.inside.outputs import map_tensors

_FLUSH_BYTES = 512 << 20
"""Twice AMD's Infinity Cache, the largest cache of any GPU."""
_DELAY_US = 200.0
"""How long to keep a GPU busy before a call: an estimate of the time cold Python needs to launch a few kernels."""
_QUIET_SYNC_US = 50.0
"""How long synchronizing an idle device may take.  If it takes longer, other streams were still working."""


class Clock(Protocol):
    """Flushes a device's caches and times a call on it."""

    delay_us: float
    """How long the device was kept busy before the last call."""

    def flush(self) -> None:
        """Overwrite all caches and wait until the device is idle."""

    def time(self, kernel: Callable[[Any], Any], data: Any) -> tuple[Any, float]:
        """A call's output, and its duration in microseconds, including all work that it launched."""


class HostClock:
    """A CPU in place of a device: it launches nothing, so it needs no delay."""

    delay_us = 0.0

    def flush(self) -> None:
        """Do nothing: the referee wrote the inputs on another core."""

    def time(self, kernel: Callable[[Any], Any], data: Any) -> tuple[Any, float]:
        start = time.perf_counter_ns()
        output = kernel(data)
        return output, (time.perf_counter_ns() - start) / 1e3


class Sweep:
    """Flushes an AMD GPU's caches: overwrites twice as much as they hold."""

    def __init__(self) -> None:
        self.buffer = torch.zeros(_FLUSH_BYTES, dtype=torch.uint8, device="cuda")

    def launch(self) -> None:
        # Not `zero_`: that lets the driver fill memory with any engine it likes.  This always launches a kernel.
        self.buffer.add_(1)


class Delay:
    """Keeps a GPU busy while the CPU launches a call's kernels, so that launch time stays out of the call's time.

    One kernel sums a buffer often enough to fill the delay.  According to torch's source, its blocks are long-running
    and fill the GPU, so most work that other streams launch has to wait too.  The kernel only reads: it leaves nothing
    in the L2 cache that would be written back during the call.
    """

    def __init__(self, buffer: torch.Tensor) -> None:
        words = buffer.view(torch.int32)
        begin, end = _recorded_events(2)
        passes_us = []
        for _ in range(3):  # the first pass loads the kernel
            begin.record()
            words.sum()
            end.record()
            end.synchronize()
            passes_us.append(begin.elapsed_time(end) * 1e3)
        self._words = as_long(words, min(passes_us))

    def launch(self) -> None:
        self._words.sum()


def as_long(words: torch.Tensor, pass_us: float) -> torch.Tensor:
    """A view of part of `words`, or of all of them several times, so that reading it takes `_DELAY_US`.

    Args:
        words: a tensor of one dimension.
        pass_us: how long it takes to read all of them once, in microseconds.
    """
    passes = _DELAY_US / pass_us
    return words[: math.ceil(len(words) * min(passes, 1.0))].expand(max(round(passes), 1), -1)


def _recorded_events(count: int) -> list[Any]:
    """Create events and record each once: torch allocates an event at its first `record`, which takes a while."""
    events = [torch.cuda.Event(enable_timing=True) for _ in range(count)]  # type: ignore[no-untyped-call]
    for event in events:
        event.record()
    return events


class CudaClock:
    """An AMD GPU, by torch's functions for CUDA."""

    def __init__(self) -> None:
        self._sweep = Sweep()
        self._delay = Delay(self._sweep.buffer)
        self._events = _recorded_events(3)
        self.delay_us = 0.0

    def flush(self) -> None:
        torch.cuda.synchronize()
        self._sweep.launch()
        torch.cuda.synchronize()

    def time(self, kernel: Callable[[Any], Any], data: Any) -> tuple[Any, float]:
        before, start, end = self._events
        before.record()
        # Do not wait for it: on an idle GPU `start` would complete at once, and the time until the CPU's first launch
        # would count.
        self._delay.launch()
        start.record()
        output = kernel(data)
        end.record()
        end.synchronize()
        began = time.perf_counter_ns()
        torch.cuda.synchronize()  # all streams, not only the one with the events
        tail_us = (time.perf_counter_ns() - began) / 1e3
        self.delay_us = before.elapsed_time(start) * 1e3
        return output, start.elapsed_time(end) * 1e3 + (tail_us if tail_us > _QUIET_SYNC_US else 0.0)


class Staging:
    """Copies inputs and outputs between host memory and a device; `device` is torch's name for it."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._host: list[torch.Tensor] = []
        self._inputs: list[torch.Tensor] = []
        self._clock: Clock = HostClock() if device == "cpu" else CudaClock()
        self.time = self._clock.time

    @property
    def delay_us(self) -> float:
        return self._clock.delay_us

    def allocate(self, host: list[torch.Tensor]) -> list[torch.Tensor]:
        """Allocate tensors on the device for these tensors in host memory.  Kernels get views of them."""
        self._host = host
        self._inputs = [
            torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=self._device)
            for tensor in host
        ]
        return self._inputs

    def fill(self) -> None:
        for target, source in zip(self._inputs, self._host, strict=True):
            target.copy_(source)
        self._clock.flush()

    def fetch(self, value: Any) -> Any:
        """Copy all plain tensors of a nested value to host memory; the nesting stays the same.

        Raises:
            TypeError: a tensor is not on the board's device.
        """
        return map_tensors(value, self._fetch)

    def _fetch(self, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.device.type != self._device:
            raise TypeError(f"custom_kernel returned a tensor on {tensor.device}; its inputs are on {self._device}")
        return tensor.detach().clone() if tensor.is_cpu else tensor.detach().cpu()
