"""Inputs and outputs in memory of the GPU that belongs to the referee, which reveals the inputs for one window only.

    player   stopped ┐ queues its work      the GPU computes, and copies the output ┌ stopped ───
    referee   inputs ┴ send ─────── E0 · reveal ──────── the calls ─────────────────┴ seal · E1 · check

The time is E1 − E0 by the referee's own events on the GPU (`harness.gpu.sealed_memory`), so it needs no clock of the
player's.  It contains a message between the processes.  An idle player measures how long that takes.  To make it
small beside a short kernel, one window may hold several calls, each with inputs and outputs of its own: the time of a
call is then the window's share.  The calls may overlap, and a player may merge them.

The player launches its kernels before there are inputs.  They wait on the GPU, so the time does not depend on how fast
Python launches them.  Scalars come with the order.  New ones would reveal a part of the inputs too early, so then the
inputs are revealed before the window.  The same is done for code that cannot queue all of its work, because it needs a
result first.
"""

from __future__ import annotations

import contextlib
import functools
import secrets
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import torch

from harness.gpu.gpu_errors import advise, is_out_of_memory
from harness.gpu.sealed_memory import SealedMemory, draw_gate
from harness.inside.cuda_driver import Driver, DriverError
from harness.inside.protocol import ALIGNMENT, MAX_LEAVES, MAX_MESSAGE, Done, Unsupported, aligned, tensors_of, write
from harness.records.errors import JudgeError
from harness.records.verdict import Foul, Verdict
from harness.referee.orders import Deadline, Orders, expect
from harness.referee.sampling import FULL_WARMUPS
from harness.reference.reference import Returned
from harness.reference.values import Flattened, collect, span_bytes

_SPARE_BYTES = 1 << 20
"""Room for outputs of a wrong shape or dtype, so that the check can say what is wrong with them."""
_TOKEN_BYTES = 64
_NOTHING: dict[str, Any] = {"tree": [], "tensors": [], "calls": 0, "steps": [0, 0], "fresh_bytes": [], "sizes": []}
"""The layout of no memory."""
_DESCRIPTION_BYTES = 400
"""A tensor's description as JSON is shorter: shape, strides, dtype, place."""
_MOST_CALLS = 50
_MOST_UNQUEUED = FULL_WARMUPS
"""After this many windows in a row without a queue, inputs are revealed before a player's windows."""
_WINDOW_BYTES = 2 << 30
_WINDOW_SHARE = 1 / 32
"""Total size of the inputs and outputs of a window with several calls, and the share of the GPU's memory for them."""


@dataclass(frozen=True)
class _Layout:
    """Where tensors are, in bytes: call number n has its inputs from n * `input_step` on."""

    order: dict[str, Any]
    places: tuple[int | None, ...]
    """Each input's place; None for output buffers, which are among the outputs."""
    calls: int
    input_step: int
    output_step: int

    @classmethod
    def of(cls, flat: Flattened, returned: Returned, calls: int) -> _Layout:
        places: list[tuple[bool, int]] = []
        ends = [0, 0]
        for index, tensor in enumerate(flat.tensors):
            is_output = index in returned.buffers
            places.append((is_output, ends[is_output]))
            ends[is_output] = aligned(ends[is_output] + span_bytes(tensor))
        ends[1] += sum(map(aligned, returned.fresh_bytes))
        ends[1] += aligned(min(ends[1], _SPARE_BYTES)) + ALIGNMENT
        layout = flat.layout
        order = {
            "tree": layout["tree"],
            "tensors": [(*spec, *place) for spec, place in zip(layout["tensors"], places, strict=True)],
            "calls": calls,
            "steps": ends,
            "fresh_bytes": returned.fresh_bytes,
        }
        inputs = tuple(None if is_output else offset for is_output, offset in places)
        return cls(order, inputs, calls, *ends)


class Sealed:
    def __init__(self, orders: Orders, driver: Driver, device: torch.device) -> None:
        self.orders = orders
        self._driver = driver
        driver.make_current()
        self._device = device
        self._layout: _Layout | None = None
        self._memory: SealedMemory | None = None
        self._scalars: bytes = b""
        self.is_queued = False
        """Whether the player queued its work in the last window before the inputs were revealed."""
        self._unqueued = 0
        self.reuses_output = False  # each output is copied into memory of its own

    def make_room(self, inputs: Sequence[Flattened], returned: Returned, deadline: Deadline) -> None:
        layout = _Layout.of(inputs[0], returned, len(inputs))
        if layout == self._layout:
            return
        if self._layout:
            # The driver frees the old memory only when no process maps it.
            self.orders.allocate(_NOTHING, deadline)
        self.close()
        self._memory = memory = self._allocate(layout)
        self.orders.allocate({**layout.order, "sizes": memory.sizes}, deadline, memory.descriptors)
        self._layout = layout

    def _allocate(self, layout: _Layout) -> SealedMemory:
        if self._device.type == "cuda":
            torch.cuda.empty_cache()  # other allocations cannot use torch's cached memory
        sizes = layout.calls * layout.input_step, layout.calls * layout.output_step
        with _blaming_the_gpu(f"it stores inputs ({sizes[0] >> 20} MiB) and outputs ({sizes[1] >> 20} MiB) twice"):
            try:
                return SealedMemory(self._driver, *sizes)
            except DriverError:
                self.orders.player.check_memory(now=True)  # the player may have used it up
                raise

    def play(
        self, inputs: Sequence[Flattened], deadline: Deadline, *, is_idle: bool = False
    ) -> tuple[float, list[Any]]:
        """Play all these calls in one window.

        An idle player makes only the first.  Each further call would only add a copy of its output, whose time the
        referee measures by itself and adds.
        """
        assert self._memory and self._layout
        played = inputs[:1] if is_idle else inputs
        self._offer(inputs)
        gate = draw_gate() if self._may_queue(inputs) else 0
        self.is_queued = False
        if not gate:
            self._reveal_before()

        def reveal(is_queued: bool) -> None:
            self.is_queued = is_queued
            self._unqueued = 0 if is_queued else self._unqueued + 1
            self._reveal(gate)

        times: list[float] = []
        order = {"do": "go", "scalars": [flat.scalars for flat in played], "gate": gate}
        answer = self.orders.open_window(
            order, deadline, lambda: times.append(self._seal()), reveal=reveal if gate else None
        )[1]
        outputs = self._collect(expect(answer, Done), played)
        if not is_idle:
            return times[0] / len(inputs), outputs
        with _blaming_the_gpu():
            copies_us = self._memory.copy_us(len(inputs) * sum(self._layout.order["fresh_bytes"]))
        copy_us = min(copies_us / len(inputs), times[0])
        return (times[0] - copy_us) / len(inputs) + copy_us, outputs

    def _may_queue(self, inputs: Sequence[Flattened]) -> bool:
        """Whether the player may get its order before the inputs: new scalars in it would reveal a part of them."""
        known, told = {self._scalars}, {write({"scalars": flat.scalars}) for flat in inputs}
        self._scalars = max(told)
        return told == known and self._unqueued < _MOST_UNQUEUED and self._driver.can_wait

    def reveal(self, flat: Flattened, _deadline: Deadline) -> None:
        self._offer([flat])
        self._reveal_before()

    def fetch(self, flat: Flattened, deadline: Deadline) -> Any:
        assert self._memory
        done = self.orders.fetch(deadline)
        self._seal()
        return self._collect(done, [flat])[0]

    def prepare_device(self) -> None:
        """Have the player map memory, read what the referee has written there, and write it back."""
        with _blaming_the_gpu("not even a few megabytes fit"), SealedMemory(self._driver, 1, 1) as memory:
            token = secrets.token_bytes(_TOKEN_BYTES)
            memory.clear()
            self._driver.write(memory.offered.address, token)
            memory.reveal()
            self.orders.open_device({"sizes": memory.sizes, "bytes": _TOKEN_BYTES}, memory.descriptors)
            memory.seal()
            if self._driver.read(memory.sealed.address, _TOKEN_BYTES) != token:
                raise JudgeError("referee and player do not see what the other writes into the GPU's shared memory")

    def close(self) -> None:
        """Free the memory of the last layout.  If the player still runs, it keeps what it has mapped."""
        memory, self._memory, self._layout = self._memory, None, None
        if memory:
            with _blaming_the_gpu(), memory:
                pass

    def _seal(self) -> float:
        assert self._memory
        with _blaming_the_gpu():
            return self._memory.seal()

    def _offer(self, inputs: Sequence[Flattened]) -> None:
        """Put the inputs where the player does not see them."""
        memory, layout = self._memory, self._layout
        assert memory and layout
        with self._waiting(), _blaming_the_gpu():
            memory.clear()
            for call, flat in enumerate(inputs):
                start = memory.offered.address + call * layout.input_step
                for tensor, place in zip(flat.tensors, layout.places, strict=True):
                    if place is not None and tensor.numel():
                        self._driver.copy(start + place, tensor.data_ptr(), span_bytes(tensor))

    def _reveal_before(self) -> None:
        """Reveal the inputs before the window, while the player is stopped."""
        with self._waiting():
            self._reveal(0)

    def _reveal(self, gate: int) -> None:
        assert self._memory
        with _blaming_the_gpu():
            self._memory.reveal(gate)

    @contextlib.contextmanager
    def _waiting(self) -> Iterator[None]:
        """Count the time of the block as the player's: work that it left on the GPU delays the block."""
        began = time.monotonic()
        yield
        self.orders.running_s += time.monotonic() - began

    def _collect(self, done: Done, inputs: Sequence[Flattened]) -> list[Any]:
        """Copy the outputs that the player describes from the sealed memory."""
        assert self._memory
        if isinstance(done.output, Unsupported):
            raise Foul(Verdict.WRONG_ANSWER, f"custom_kernel returned {done.output.name}.")
        if not isinstance(done.output, list) or len(done.output) != len(inputs):
            raise Foul(Verdict.SECURITY_VIOLATION, "The process returned a wrong number of outputs.")
        size = sum(max(spec.span_bytes, spec.elements) for spec in tensors_of(done.output))
        if size > self._memory.sealed.size:
            self._refuse_size(done.output)
        with _blaming_the_gpu():
            return [
                collect(output, functools.partial(self._read, output), self._memory.sealed.size, self._device)
                for output in done.output
            ]

    def _read(self, output: Any, place: int, target: int, length: int) -> None:
        assert self._memory and self._layout
        if place + length > self._memory.sealed.size:
            self._refuse_size(output)
        if length:
            self._driver.copy(target, self._memory.sealed.address + place, length)
            self._driver.wait()

    def _refuse_size(self, output: Any) -> NoReturn:
        assert self._layout
        size = sum(spec.span_bytes for spec in tensors_of(output))
        right = sum(self._layout.order["fresh_bytes"]) or "none"
        message = f"The output takes {size} bytes; a correct one takes {right} besides its buffers."
        raise Foul(Verdict.WRONG_ANSWER, message)


def calls_that_fit(flat: Flattened, returned: Returned) -> int:
    """How many calls one window may hold."""
    layout = _Layout.of(flat, returned, 1)
    return max(1, min(
        _MOST_CALLS,
        _window_bytes(flat.tensors) // (layout.input_step + layout.output_step),
        (MAX_LEAVES - 1) // returned.nodes,
        MAX_MESSAGE // (_DESCRIPTION_BYTES * returned.nodes),
        MAX_MESSAGE // 2 // len(write({"scalars": flat.scalars})),
    ))  # fmt: skip


def _window_bytes(tensors: Sequence[torch.Tensor]) -> int:
    devices = {tensor.device for tensor in tensors if tensor.is_cuda}
    shares = [int(_WINDOW_SHARE * torch.cuda.get_device_properties(device).total_memory) for device in devices]
    return min([_WINDOW_BYTES, *shares])


@functools.cache
def driver_of(library: str) -> Driver:
    """The referee's driver.

    Raises:
        JudgeError: there is none, or no GPU.
    """
    try:
        return Driver(library)
    except (DriverError, OSError) as error:
        raise JudgeError(f"the GPU's driver cannot be used: {advise(str(error))}") from None


@contextlib.contextmanager
def _blaming_the_gpu(why_full: str = "its outputs do not fit") -> Iterator[None]:
    """Turn errors of the driver in our own process into JudgeErrors: the player is not to blame."""
    try:
        yield
    except (DriverError, torch.OutOfMemoryError) as error:
        if is_out_of_memory(str(error)):
            raise JudgeError(
                f"the GPU has too little memory left for the referee: {why_full}; lower gpu_memory_gib to leave more, "
                "or judge on a GPU with more memory"
            ) from None
        raise JudgeError(f"the GPU failed in the referee's process: {advise(str(error))}") from None
