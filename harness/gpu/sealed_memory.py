"""Device memory for one window at a time: the referee reveals inputs, and seals outputs, by kernels of its own.

    E0 ─ reveal ─ open the gate            ─ seal ─ E1        events of the referee's context
         private ─▶ inputs    the call    outputs ─▶ private

Inputs and outputs are shared with the player by file descriptors.  The inputs do not exist for the player before E0,
and only what is in the outputs before E1 counts.  So however the player uses the device, E1 − E0 covers the work on
these inputs.  Events between reveal and seal would not: a GPU may switch to the player between any two commands.

The gate is a word in the shared memory.  A player's work may be queued on the device before there are inputs, and wait
for it: then the call does not contain the time to launch it.

The memory of other processes and of earlier calls never reaches a player: NVIDIA does not promise that new memory is
cleared, so all of it is filled first.  A player sees what the referee's kernels wrote, because one GPU has one L2
cache; NVIDIA does not document this for two processes.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import secrets
from collections.abc import Iterator
from ctypes import c_void_p
from typing import Self

from harness.gpu.kernels import REFEREE
from harness.inside.cuda_driver import Driver, Mapping
from harness.inside.protocol import ALIGNMENT, gate_of
from harness.records.errors import JudgeError

_PIECE = 16
"""Bytes that the kernels move at a time."""
_THREADS = 1024
_BLOCKS = 1024
"""Enough to fill every GPU."""


def draw_gate() -> int:
    """A number for the gate, of 32 bits, that no player can guess; never 0."""
    return 1 + secrets.randbelow(2**32 - 1)


class SealedMemory:
    """Inputs and outputs of one player.  The sizes in bytes are rounded up.

        memory.clear()                        overwrite everything
        write the inputs to `memory.offered`, and wait until they are there
        memory.reveal(gate := draw_gate()); the call, which waits for the gate; memory.seal()
        read the outputs from `memory.sealed`

    Raises:
        JudgeError: this GPU's memory cannot be shared in this way.
        DriverError: the driver failed, for example because the GPU has too little memory.
    """

    def __init__(self, driver: Driver, inputs: int, outputs: int) -> None:
        if obstacle := driver.find_obstacle():
            raise JudgeError(f"the GPU cannot judge: {obstacle}")
        self._driver = driver
        with contextlib.ExitStack() as exits:
            module = driver.load(REFEREE)
            exits.callback(driver.call, "cuModuleUnload", module)
            self._copy, self._fill = (driver.kernel(module, name) for name in ("copy", "fill"))
            self._stream = driver.stream()
            exits.callback(driver.call, "cuStreamDestroy_v2", self._stream)
            self._launched = driver.allocate_word()
            exits.callback(driver.free_word, self._launched)
            self._events = [driver.event() for _ in range(2)]
            for event in self._events:
                exits.callback(driver.call, "cuEventDestroy_v2", event)
            self._inputs, first = self._share(inputs + ALIGNMENT, exits)
            self._gate = Mapping(gate_of(self._inputs.address, self._inputs.size), _PIECE)
            self._outputs, second = self._share(outputs, exits)
            self.descriptors = first, second
            self.offered = self._allocate(self._inputs.size, exits)
            """Private memory for the inputs of the next call."""
            self.sealed = self._allocate(self._outputs.size, exits)
            """Private memory with the outputs of the last call."""
            self._caches = self._allocate(2 * driver.cache_bytes or _PIECE, exits)
            self._overwrite(self._inputs, self._outputs, self.offered, self.sealed)
            driver.wait(self._stream)
            exits.callback(driver.wait, self._stream)
            exits.callback(self._overwrite, self.offered, self.sealed)
            self._exits = exits.pop_all()

    def _share(self, size: int, exits: contextlib.ExitStack) -> tuple[Mapping, int]:
        shared, descriptor = self._driver.share(size)
        exits.callback(self._driver.unmap, shared)
        exits.callback(os.close, descriptor)
        return shared, descriptor

    def _allocate(self, size: int, exits: contextlib.ExitStack) -> Mapping:
        private = self._driver.allocate(size)
        exits.callback(self._driver.free, private)
        return private

    @property
    def sizes(self) -> tuple[int, int]:
        """The sizes of the shared inputs and outputs, in bytes."""
        return self._inputs.size, self._outputs.size

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._exits.close()

    def clear(self) -> None:
        """Overwrite what the last call has left, once all work in the default stream is done."""
        self._driver.wait()
        self._overwrite(self.offered, self._inputs, self._outputs)
        self._driver.wait(self._stream)

    def reveal(self, gate: int = 0) -> None:
        """Copy the offered inputs to where the player sees them, and overwrite the caches that they went through.

        Then open the gate with this number.  With 0, there is no gate: wait until the inputs are copied.
        """
        self._driver.wait()
        # A player can make cache lines persist; NVIDIA does not document whether that affects other processes' lines.
        self._driver.reset_persisting_lines()
        with self._all_at_once():
            self._driver.call("cuEventRecord", self._events[0], self._stream)
            self._launch(self._copy, Mapping(self._inputs.address, self._inputs.size - ALIGNMENT), self.offered.address)
            self._overwrite(self._caches)
            if gate:
                self.open_gate(gate)
        if not gate:
            self._driver.wait(self._stream)

    def open_gate(self, number: int) -> None:
        """Start the work that waits for this number, as soon as all work of this object's own stream is done."""
        self._launch(self._fill, self._gate, number)

    def seal(self) -> float:
        """Copy the outputs to where the player does not see them; return how long the call took, in microseconds."""
        self._launch(self._copy, self.sealed, self._outputs.address)
        return self._end_us()

    def copy_us(self, size: int) -> float:
        """How long it takes to copy `size` bytes, in microseconds: the fastest of three tries."""
        return min(self._time_copy(size) for _ in range(3)) if size else 0.0

    def _time_copy(self, size: int) -> float:
        with self._all_at_once():
            self._driver.call("cuEventRecord", self._events[0], self._stream)
            self._launch(self._copy, Mapping(self.sealed.address, min(size, self.sealed.size)), self._outputs.address)
        return self._end_us()

    @contextlib.contextmanager
    def _all_at_once(self) -> Iterator[None]:
        """Let the GPU start only when the block has launched all of its work, so that times do not contain launches."""
        number = self._launched.value + 1
        try:
            if self._driver.can_wait:
                self._driver.wait_for_value(self._stream.value, ctypes.addressof(self._launched), number)
            yield
        finally:
            self._launched.value = number

    def _end_us(self) -> float:
        self._driver.call("cuEventRecord", self._events[1], self._stream)
        self._driver.wait(self._stream)
        return self._driver.elapsed_us(*self._events)

    def _overwrite(self, *places: Mapping) -> None:
        for place in places:
            self._launch(self._fill, place, secrets.randbits(32))

    def _launch(self, kernel: c_void_p, target: Mapping, value: int) -> None:
        pieces = -(-target.size // _PIECE)
        blocks = min(_BLOCKS, -(-pieces // _THREADS))
        self._driver.launch(kernel, self._stream, (target.address, value, pieces), blocks=blocks, threads=_THREADS)
