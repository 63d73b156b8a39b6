"""Device memory for one call at a time: the referee reveals inputs, and seals outputs, by kernels of its own.

    E0 ─ reveal ─ E1                         E2 ─ seal ─ E3        events of the referee's context
         private ─▶ inputs    the call    outputs ─▶ private

Inputs and outputs are shared with the player by file descriptors.  The inputs do not exist for the player before E0,
and only what is in the outputs before E3 counts.  So however the player uses the device, E3 − E0 covers the work on
these inputs: `strict_us`.  If a GPU never runs two contexts at the same time, E2 − E1 covers it, too: `tight_us`.
"""

from __future__ import annotations

import os
import secrets
from ctypes import c_void_p
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from harness.gpu.kernels import REFEREE
from harness.inside.cuda_driver import Driver, Mapping

_PIECE = 16
"""Bytes that the kernels move at a time."""
_THREADS = 1024
_BLOCKS = 1024
"""Enough to fill every GPU."""


@dataclass(frozen=True)
class Span:
    """How long a call took by the referee's events, in microseconds."""

    strict_us: float
    tight_us: float


class SealedMemory:
    """Inputs and outputs of one player.  The sizes in bytes are rounded up."""

    def __init__(self, driver: Driver, inputs: int, outputs: int) -> None:
        self._driver = driver
        self._stream = driver.stream()
        module = driver.load(REFEREE)
        self._copy, self._fill = (driver.kernel(module, name) for name in ("copy", "fill"))
        self._events = [driver.event() for _ in range(4)]
        (self._inputs, first), (self._outputs, second) = driver.share(inputs), driver.share(outputs)
        self.descriptors = first, second
        self._offered, self._sealed = (driver.allocate(one.size) for one in (self._inputs, self._outputs))

    @property
    def sizes(self) -> tuple[int, int]:
        """The sizes of the shared inputs and outputs, in bytes."""
        return self._inputs.size, self._outputs.size

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._driver.call("cuStreamSynchronize", self._stream)
        for descriptor in self.descriptors:
            os.close(descriptor)
        for shared in (self._inputs, self._outputs):
            self._driver.unmap(shared)
        for private in (self._offered, self._sealed):
            self._driver.free(private)

    def offer(self, data: bytes) -> None:
        """Write the next inputs into private memory, and overwrite what the last call left in the shared one."""
        if len(data) > self._inputs.size:
            raise ValueError(f"{len(data)} bytes of inputs do not fit into {self._inputs.size}")
        self._driver.write(self._offered.address, data)
        for shared in (self._inputs, self._outputs):
            self._launch(self._fill, shared, secrets.randbits(32))
        self._driver.call("cuStreamSynchronize", self._stream)

    def reveal(self) -> None:
        """Copy the offered inputs to where the player sees them."""
        self._copy_timed(self._inputs, self._offered, self._events[0], self._events[1])

    def seal(self) -> Span:
        """Copy the outputs to where the player does not see them; return how long the call took."""
        self._copy_timed(self._sealed, self._outputs, self._events[2], self._events[3])
        begin, visible, done, end = self._events
        return Span(self._driver.elapsed_us(begin, end), self._driver.elapsed_us(visible, done))

    def output(self, size: int) -> bytes:
        """The first bytes of the sealed outputs."""
        return self._driver.read(self._sealed.address, size)

    def _copy_timed(self, target: Mapping, source: Mapping, start: c_void_p, end: c_void_p) -> None:
        self._driver.call("cuEventRecord", start, self._stream)
        self._launch(self._copy, target, source.address)
        self._driver.call("cuEventRecord", end, self._stream)
        self._driver.call("cuStreamSynchronize", self._stream)

    def _launch(self, kernel: c_void_p, target: Mapping, value: int) -> None:
        pieces = target.size // _PIECE
        blocks = min(_BLOCKS, -(-pieces // _THREADS))
        arguments = (target.address, value, pieces)
        self._driver.launch(kernel, self._stream, arguments, blocks=blocks, threads=_THREADS)
