"""Inputs and outputs in the memory of the player, which the referee writes and reads while the player is stopped."""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch

from harness.gpu import cpu
from harness.inside.protocol import Done, TensorSpec, tensors_of
from harness.records.errors import JudgeError
from harness.records.verdict import Foul, Verdict
from harness.referee.orders import Deadline, Orders, expect
from harness.reference.reference import Returned
from harness.reference.values import Flattened, collect, elements_of, span_bytes

_POISON = torch.frombuffer(bytearray(os.urandom(256 << 10)), dtype=torch.uint8)
_INPUTS_GONE = "The memory of the inputs was freed or made read-only."


class HostMemory:
    def __init__(self, orders: Orders) -> None:
        self.orders = orders
        self._layout: Any = None
        self._addresses: tuple[int, ...] = ()
        self._buffers: frozenset[int] = frozenset()
        self._output: tuple[TensorSpec, ...] = ()
        self.reuses_output = False
        self._usual_bytes = 0
        """The size of a right output, or of the inputs, which the idle player returns."""

    def make_room(self, inputs: Sequence[Flattened], returned: Returned, deadline: Deadline) -> None:
        (flat,) = inputs
        self._buffers = returned.buffers
        written = sum(span_bytes(flat.tensors[index]) for index in returned.buffers)
        self._usual_bytes = max(flat.span_bytes, sum(returned.fresh_bytes) + written)
        if flat.layout == self._layout:
            return
        allocated = self.orders.allocate(flat.layout, deadline)
        if len(allocated.addresses) != len(flat.tensors):
            raise Foul(Verdict.SECURITY_VIOLATION, "The process returned a wrong number of input addresses.")
        self._layout, self._addresses, self._output = flat.layout, allocated.addresses, ()

    def play(
        self,
        inputs: Sequence[Flattened],
        deadline: Deadline,
        *,
        is_idle: bool = False,  # noqa: ARG002
    ) -> tuple[float, list[Any]]:
        (flat,) = inputs
        self.reveal(flat, deadline)
        window_us, answer = self.orders.open_window({"do": "go", "scalars": [flat.scalars]}, deadline)
        done = expect(answer, Done)
        output = self.collect(done)
        last, self._output = self._output, tuple(tensors_of(done.output))
        kept = {one.address for one in self._output} & {one.address for one in last}
        places = zip(flat.tensors, self._addresses, strict=True)
        ours = [range(start, start + span_bytes(tensor)) for tensor, start in places]
        self.reuses_output = any(all(address not in place for place in ours) for address in kept)
        return window_us, [output]

    def reveal(self, flat: Flattened, _deadline: Deadline) -> None:
        """Write the inputs into the player's memory, and overwrite where outputs of the last call may be."""
        self._poison_output()
        for index, (tensor, address) in enumerate(zip(flat.tensors, self._addresses, strict=True)):
            length = span_bytes(tensor)
            try:
                if index in self._buffers:
                    self._poison(address, length)
                else:
                    cpu.write_memory(self.orders.player.pid, address, tensor.data_ptr(), length)
            except OSError as error:
                raise self._fault(error, Verdict.RUN_TIME_ERROR, _INPUTS_GONE) from None

    def fetch(self, _flat: Flattened, deadline: Deadline) -> Any:
        return self.collect(self.orders.fetch(deadline))

    def prepare_device(self) -> None:
        """Do nothing: a CPU needs no preparation."""

    def close(self) -> None:
        """Do nothing: there is no shared memory to free."""

    def collect(self, done: Done) -> Any:
        """Copy the output that the player describes."""
        with self._counting_gaps(tensors_of(done.output)):
            return collect(done.output, self._read, self._usual_bytes)

    @contextlib.contextmanager
    def _counting_gaps(self, specs: Iterable[TensorSpec]) -> Iterator[None]:
        """Count the time of the block if one of these tensors has gaps."""
        began = time.monotonic()
        try:
            yield
        finally:
            if any(spec.has_gaps for spec in specs):
                self.orders.gaps_s += time.monotonic() - began

    def _poison_output(self) -> None:
        """Overwrite the last call's output, so that a stale buffer cannot pass as the next answer."""
        for spec in self._output:
            try:
                if spec.is_dense:
                    self._poison(spec.address, spec.span_bytes)
                else:
                    with self._counting_gaps([spec]):
                        self._poison_elements(spec)
            except OSError as error:
                if error.errno != errno.EFAULT:
                    raise self._fault(error, Verdict.RUN_TIME_ERROR, "") from None
                # Freed or read-only.  If it comes back, the check refuses the answer to other inputs.

    def _poison_elements(self, spec: TensorSpec) -> None:
        """Overwrite the elements of a strided tensor; the gaps between them are not part of the output."""
        span = torch.empty(spec.span_bytes, dtype=torch.uint8)
        cpu.read_memory(self.orders.player.pid, spec.address, span.data_ptr(), spec.span_bytes)
        elements_of(span, spec).random_()
        cpu.write_memory(self.orders.player.pid, spec.address, span.data_ptr(), spec.span_bytes)

    def _poison(self, address: int, length: int) -> None:
        for start in range(0, length, len(_POISON)):
            size = min(len(_POISON), length - start)
            cpu.write_memory(self.orders.player.pid, address + start, _POISON.data_ptr(), size)

    def _read(self, address: int, target: int, length: int) -> None:
        try:
            cpu.read_memory(self.orders.player.pid, address, target, length)
        except OSError as error:
            raise self._fault(error, Verdict.WRONG_ANSWER, "The output is in memory that cannot be read.") from None

    def _fault(self, error: OSError, verdict: Verdict, message: str) -> Foul | JudgeError:
        """Distinguish what the player did to its memory, a foul with `verdict`, from missing rights of the judge."""
        if isinstance(error, ProcessLookupError):
            return self.orders.player.died()
        if error.errno == errno.EFAULT:
            self.orders.player.check_memory()  # the kernel may have killed the player for its memory use at this page
            return Foul(verdict, message)
        if error.errno == errno.EPERM and self.orders.player.hides_its_memory:
            return Foul(Verdict.SECURITY_VIOLATION, "The process made its memory unreadable to the referee.")
        return JudgeError(
            f"cannot access the player's memory ({error}): the judge needs the right to trace its own processes; "
            "check kernel.yama.ptrace_scope, or the container's CAP_SYS_PTRACE"
        )
