"""The player's side of a device that is not the CPU: inputs to it, a cold cache, the clock, outputs back.

    fill     from host memory, where the referee has written them, to the device; then all caches are overwritten
    time     a delay, and one call between two events behind it; then everything on the device must be over
    fetch    outputs to host memory, where the referee reads them

It runs beside the submission, which may patch all of it: a time that is taken here is the participant's word, and the
referee's clock around each of the three steps bounds it (`alibi`).  On a CPU the same steps are a rehearsal.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import time
from collections.abc import Callable
from typing import Any, Protocol

import torch

_FLUSH_BYTES = 512 << 20
"""Where a device does not tell the size of its caches: twice AMD's Infinity Cache, the largest that there is."""
_DELAY_US = 200.0
"""How long a GPU is kept busy before a call: estimated, as what it takes to launch a few kernels by cold Python."""
_QUIET_SYNC_US = 50.0
"""How long it may take to see that nothing is left to be done; longer, and other streams were still at work."""


class Clock(Protocol):
    """What a device must be able to do."""

    delay_us: float
    """How long it was kept busy before the last call."""

    def flush(self) -> None:
        """Leave nothing of what was written in any cache, and nothing to be done."""

    def time(self, kernel: Callable[[Any], Any], data: Any) -> tuple[Any, float]:
        """A call's output, and how long it took in microseconds, all that it has set going included."""


class HostClock:
    """A CPU in the place of a device: nothing is launched there, so nothing needs a delay."""

    delay_us = 0.0

    def flush(self) -> None:
        """Its caches were filled by the referee on another core."""

    def time(self, kernel: Callable[[Any], Any], data: Any) -> tuple[Any, float]:
        start = time.perf_counter_ns()
        output = kernel(data)
        return output, (time.perf_counter_ns() - start) / 1e3


class Sweep:
    """Empties a GPU's L2 cache: what was made to persist there may go, and then all is overwritten, twice as much."""

    def __init__(self) -> None:
        facts = torch.cuda.get_device_properties(0)
        size = 2 * int(getattr(facts, "L2_cache_size", 0)) if torch.version.hip is None else 0
        self.buffer = torch.zeros(size or _FLUSH_BYTES, dtype=torch.uint8, device="cuda")
        self._driver: ctypes.CDLL | None = None
        with contextlib.suppress(OSError):  # AMD has no such thing
            self._driver = ctypes.CDLL("libcuda.so.1")

    def release(self) -> None:
        """Lines that were made to persist would outlive the sweep."""
        if self._driver and hasattr(self._driver, "cuCtxResetPersistingL2Cache"):
            self._driver.cuCtxResetPersistingL2Cache()

    def launch(self) -> None:
        # Not `zero_`: that asks the driver to fill memory, by whatever engine it likes; this is a kernel.
        self.buffer.add_(1)


class Delay:
    """Keeps a GPU busy while the CPU launches a call's kernels, which would be in the call's time otherwise.

    One kernel sums up a buffer as often as that takes.  By torch's source its blocks are long, and as many as the GPU
    holds, so that most of what other streams launch has to wait as well.  It only reads: nothing that it leaves in the
    L2 cache must be written back during the call.
    """

    def __init__(self, buffer: torch.Tensor) -> None:
        words = buffer.view(torch.int32)
        begin, end = _recorded_events(2)
        passes_us = []
        for _ in range(3):  # the first one loads the kernel
            begin.record()
            words.sum()
            end.record()
            end.synchronize()
            passes_us.append(begin.elapsed_time(end) * 1e3)
        self._words = as_long(words, min(passes_us))

    def launch(self) -> None:
        self._words.sum()


def as_long(words: torch.Tensor, pass_us: float) -> torch.Tensor:
    """A part of these words, or all of them several times, so that reading it takes `_DELAY_US`; no copy.

    Args:
        words: of one dimension.
        pass_us: how long it takes to read all of them once.
    """
    passes = _DELAY_US / pass_us
    return words[: math.ceil(len(words) * min(passes, 1.0))].expand(max(round(passes), 1), -1)


def _recorded_events(count: int) -> list[Any]:
    """Events that exist: torch makes them when they are first recorded, which takes a while."""
    events = [torch.cuda.Event(enable_timing=True) for _ in range(count)]  # type: ignore[no-untyped-call]
    for event in events:
        event.record()
    return events


class CudaClock:
    """A GPU, of NVIDIA or AMD."""

    def __init__(self) -> None:
        self._sweep = Sweep()
        self._delay = Delay(self._sweep.buffer)
        self._events = _recorded_events(3)
        self.delay_us = 0.0

    def flush(self) -> None:
        torch.cuda.synchronize()
        self._sweep.release()
        self._sweep.launch()
        torch.cuda.synchronize()

    def time(self, kernel: Callable[[Any], Any], data: Any) -> tuple[Any, float]:
        before, start, end = self._events
        before.record()
        # Not awaited: on an idle GPU `start` would be over at once, and the CPU's way to the first launch be timed.
        self._delay.launch()
        start.record()
        output = kernel(data)
        end.record()
        end.synchronize()
        began = time.perf_counter_ns()
        torch.cuda.synchronize()  # of all streams, not only of the one that the events are on
        tail_us = (time.perf_counter_ns() - began) / 1e3
        self.delay_us = before.elapsed_time(start) * 1e3
        return output, start.elapsed_time(end) * 1e3 + (tail_us if tail_us > _QUIET_SYNC_US else 0.0)


class Staging:
    """Inputs and outputs between host memory and a device; `device` is torch's name of it."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._host: list[torch.Tensor] = []
        self._inputs: list[torch.Tensor] = []
        self._clock: Clock = HostClock() if device == "cpu" else CudaClock()
        self.time = self._clock.time

    @property
    def delay_us(self) -> float:
        return self._clock.delay_us

    def lay(self, host: list[torch.Tensor]) -> list[torch.Tensor]:
        """Room on the device for what will be written into these; what a kernel is given are views of it."""
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
        """The same nesting with all plain tensors in host memory.

        Raises:
            TypeError: one of them is on another device than the board's.
        """
        if type(value) in (torch.Tensor, torch.nn.Parameter) and value.layout is torch.strided:
            if value.device.type != self._device:
                raise TypeError(f"custom_kernel returned a tensor on {value.device}; its inputs are on {self._device}")
            return value.detach().clone() if value.is_cpu else value.detach().cpu()
        if isinstance(value, dict):
            return {key: self.fetch(item) for key, item in value.items()}
        if type(value) in (list, tuple):
            return type(value)([self.fetch(item) for item in value])
        return value
