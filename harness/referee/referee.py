"""One player, one call after another: deal the inputs, open the window, take the output, check it.

    player  stopped ──────────────┐ runs: the window ┌ stopped ─────────────────────────────
    referee  generate · write · go ┴───── clock ──────┴ read · poison · write · go · … · check

The player runs only inside windows (and while it makes room for inputs of a new shape, before they exist).
So all of its work on an input lies between two readings of the referee's clock: `resume` and confirmed `stop`.

On a staged device (`devices.device`) the player has two more steps beside its window: it copies the inputs to the
device before, and the outputs back after.  The time is its own word then, and the referee's clock says of each step how
long it took; between them he empties the device's caches himself, and sees whether it is idle (`alibi`).
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from harness.gpu import cpu
from harness.gpu.device import CPU, Device
from harness.gpu.gpu_errors import advise, is_out_of_memory
from harness.gpu.gpu_errors import explain as explain_error
from harness.inside.protocol import (
    Answer,
    Compiled,
    Done,
    Failed,
    Filled,
    Laid,
    Loaded,
    Opened,
    Profiled,
    TensorSpec,
    Timed,
    Watched,
    tensors_of,
)
from harness.records.errors import JudgeError, TaskError
from harness.records.judgement import Digests
from harness.records.profile import MAX_OPERATIONS, Operation, Profile
from harness.records.verdict import Foul, Verdict
from harness.referee.digest import digest
from harness.referee.reference import Reference
from harness.referee.self_timing import Outside
from harness.referee.values import Deal, UnsupportedInput, collect, deal, elements_of, span_bytes
from harness.sandbox.player_handle import PlayerHandle
from harness.task.compile import Recipe, explain, ran_out_of_memory

_POISON = torch.frombuffer(bytearray(os.urandom(256 << 10)), dtype=torch.uint8)
_BATCH_BYTES = 256 << 20
"""Inputs of this size are made ahead of their windows."""
_INPUTS_GONE = "The memory of the inputs was freed or made read-only."
_OPEN_S = 60.0
"""How long a player may take to get hold of its device: a context, and a buffer to empty its caches with."""


Params = Mapping[str, Any]


@dataclass
class Deadline:
    """Until when a phase may go on, and how long one call in it may take."""

    phase_s: float
    phase_ends: float
    call_s: float

    @classmethod
    def of(cls, phase_s: float, call_s: float) -> Deadline:
        return cls(phase_s, time.monotonic() + phase_s, call_s)

    @property
    def is_over(self) -> bool:
        return time.monotonic() > self.phase_ends

    @property
    def spent_s(self) -> float:
        """What the phase has had of its seconds so far."""
        return time.monotonic() - (self.phase_ends - self.phase_s)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """What happens in the block does not count: the phase may go on for as much longer."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.phase_ends += time.monotonic() - began

    def next_call(self) -> tuple[float, str]:
        """Until when the next call may go on, and what to say if it doesn't end by then."""
        ends = time.monotonic() + self.call_s
        if ends < self.phase_ends:
            return ends, f"A call took over {self.call_s:g} s."
        return self.phase_ends, f"All calls together took over {self.phase_s:g} s."


class Referee:
    """A player at the referee's table."""

    def __init__(self, player: PlayerHandle, reference: Reference, device: Device = CPU) -> None:
        self.player = player
        self.reference = reference
        self.device = device
        self.outside: list[Outside] = []
        """Of each call on a staged device: what the referee's clock says."""
        self.digests: Digests | None = None
        """Of the last call whose digests were asked for."""
        self._layout: Any = None
        self._addresses: tuple[int, ...] = ()
        self._output: tuple[TensorSpec, ...] = ()
        self.running_s = 0.0

    def compile(self, recipe: Recipe, seconds: float) -> None:
        """Have the player compile the submission, which it does not run.

        Raises:
            Foul: it is no such source, or takes too much time or memory.
            JudgeError: the compiler can't be run here.
        """
        self.player.send({"do": "compile", "command": recipe.command})
        late = f"Compiling the submission took over {seconds:g} s (compile_timeout)."
        answer = self.player.answer(time.monotonic() + seconds, late)
        if isinstance(answer, Failed):
            raise JudgeError(f"{recipe.command[0]} could not be run: {answer.error}: {answer.message}")
        compiled = self._expect(answer, Compiled)
        assert isinstance(compiled, Compiled)
        if compiled.status == 0:
            return
        if ran_out_of_memory(compiled.output):
            raise Foul(Verdict.MEMORY_LIMIT_EXCEEDED, "The compiler needs more memory than memory_gib grants.")
        raise Foul(Verdict.COMPILE_ERROR, explain(compiled.status, compiled.output))

    def load(self, seconds: float, limit: str = "compile_timeout") -> None:
        """Have the player import the submission.  Raises Foul; on return the player is stopped."""
        if self.device.is_staged:
            self._open_device()
        self.player.send({"do": "load"})
        try:
            late = f"Importing the submission took over {seconds:g} s ({limit})."
            answer = self.player.answer(time.monotonic() + seconds, late)
            self._expect(answer, Loaded)
        except Foul as foul:
            if foul.verdict is Verdict.RUN_TIME_ERROR:
                raise Foul(Verdict.COMPILE_ERROR, foul.message) from None
            raise
        self.player.stop()
        self.player.check_memory()  # before the referee needs his share of a GPU's

    def _open_device(self) -> None:
        """Have the player get hold of its device before it reads a line of the submission: what fails here is ours."""
        self.player.send({"do": "open"})
        try:
            answer = self.player.answer(time.monotonic() + _OPEN_S, f"it took over {_OPEN_S:g} s")
        except Foul as foul:
            raise JudgeError(f"a player did not get hold of its GPU: {foul.message}") from None
        if isinstance(answer, Failed):
            raise JudgeError(f"a player did not get hold of its GPU, and the referee did: {advise(answer.message)}")
        self._expect(answer, Opened)

    def call(
        self, params: Params, seed: int, deadline: Deadline, *, checked: bool = True, digested: bool = False
    ) -> float:
        """One call of `custom_kernel` on fresh inputs; its window in microseconds.  Raises as `calls` does."""
        return self.calls(params, (seed,), deadline, checked=checked, digested=digested)[0]

    def calls(
        self,
        params: Params,
        seeds: Sequence[int],
        deadline: Deadline,
        *,
        checked: bool = True,
        digested: bool = False,
        after_windows: Callable[[], None] = lambda: None,
    ) -> tuple[float, ...]:
        """Calls of `custom_kernel`, each on fresh inputs; their windows in microseconds, or the player's word.

        Inputs are made before the first window of a batch, and outputs checked after its last: a player that
        has waited for milliseconds comes back to cold caches, which would be in its window.

        Args:
            digested: remember the digests of the first call.
            after_windows: called after the last window of each batch, before anything else is done.

        Raises:
            Foul: an output is wrong, or the player broke a rule or a limit.
            TaskError: the task's own code failed.
        """
        buffers = self.reference.output_buffers(params)
        windows: list[float] = []
        while len(windows) < len(seeds):
            batch = self._deal_batch(params, seeds[len(windows) :])
            outputs = []
            for hand in batch:
                window_us, output = self._play(hand, buffers, deadline)
                windows.append(window_us)
                outputs.append(output)
            after_windows()
            if digested and len(windows) == len(batch):  # before the task's own code gets hold of them
                self.digests = Digests(inputs=digest(batch[0].data), outputs=digest(outputs[0]))
            for hand, output in zip(batch, outputs, strict=True):
                if checked and (message := self.reference.check(hand.data, output)):
                    raise Foul(Verdict.WRONG_ANSWER, message)
        return tuple(windows)

    def profile(self, params: Params, seed: int, deadline: Deadline) -> Profile:
        """One call under the player's profiler, which is its own word; the output is checked.  Raises as `calls`."""
        hand = self._deal(self.reference.generate(params, seed))
        self._make_room(hand, deadline)
        self._hand_over(hand, self.reference.output_buffers(params))
        if self.device.is_staged:
            self._expect(self._open_window({"do": "fill"}, deadline)[1], Filled)
        profiled = self._expect(self._open_window({"do": "profile", "scalars": hand.scalars}, deadline)[1], Profiled)
        done = self._expect(self._open_window({"do": "fetch"}, deadline)[1], Done)
        assert isinstance(profiled, Profiled) and isinstance(done, Done)
        if message := self.reference.check(hand.data, collect(done.output, self._read, hand.span_bytes)):
            raise Foul(Verdict.WRONG_ANSWER, message)
        operations = [
            Operation(name=name, on_device=on_device, calls=calls, own_us=own_us)
            for name, on_device, calls, own_us in profiled.operations[:MAX_OPERATIONS]
        ]
        # Nothing takes no time at all, whatever a liar says.
        return Profile(call_us=max(profiled.call_us, 0.001), operations=tuple(operations))

    def watch(self, params: Params, seed: int, deadline: Deadline) -> None:
        """One call under a vendor's profiler; what it returns is not asked for.  Raises as `calls`."""
        hand = self._deal(self.reference.generate(params, seed))
        self._make_room(hand, deadline)
        self._hand_over(hand, self.reference.output_buffers(params))
        if self.device.is_staged:
            self._expect(self._open_window({"do": "fill"}, deadline)[1], Filled)
        self._expect(self._open_window({"do": "watch", "scalars": hand.scalars}, deadline)[1], Watched)

    def _deal_batch(self, params: Params, seeds: Sequence[int]) -> list[Deal]:
        """Inputs for as many of the next calls as fit into the referee's memory."""
        batch: list[Deal] = []
        room = _BATCH_BYTES
        for seed in seeds:
            batch.append(self._deal(self.reference.generate(params, seed)))
            room -= batch[-1].span_bytes
            if room < 0:
                break
        return batch

    def _play(self, hand: Deal, buffers: frozenset[int], deadline: Deadline) -> tuple[float, Any]:
        self._make_room(hand, deadline)
        if self.device.is_staged:
            return self._play_staged(hand, buffers, deadline)
        self._hand_over(hand, buffers)
        window_us, answer = self._open_window({"do": "go", "scalars": hand.scalars}, deadline)
        done = self._expect(answer, Done)
        assert isinstance(done, Done)
        output = collect(done.output, self._read, hand.span_bytes)
        self._output = tuple(tensors_of(done.output))
        return window_us, output

    def _play_staged(self, hand: Deal, buffers: frozenset[int], deadline: Deadline) -> tuple[float, Any]:
        """A kernel that has been left running may see the inputs as soon as they are written.

        Only what lies between that and the last stop bounds the time.
        """
        sweep_us = self.device.side.sweep_us
        sweeps_us = [sweep_us()]
        revealed = time.perf_counter_ns()
        self._hand_over(hand, buffers)
        fill_us, answer = self._open_window({"do": "fill"}, deadline)
        self._expect(answer, Filled)
        sweeps_us.append(sweep_us())
        window_us, answer = self._open_window({"do": "go", "scalars": hand.scalars}, deadline)
        timed = self._expect(answer, Timed)
        sweeps_us.append(sweep_us())
        fetch_us, answer = self._open_window({"do": "fetch"}, deadline)
        span_us = (time.perf_counter_ns() - revealed) / 1e3
        done = self._expect(answer, Done)
        assert isinstance(timed, Timed) and isinstance(done, Done)
        call = Outside(
            inside_us=timed.inside_us,
            delay_us=timed.delay_us,
            fill_us=fill_us,
            window_us=window_us,
            fetch_us=fetch_us,
            span_us=span_us,
            fetched_bytes=sum(spec.span_bytes for spec in tensors_of(done.output)),
            sweep_us=max(sweeps_us),
        )
        self.outside.append(call)
        # What it returned lies in copies of its own: there is nothing that poison would reach.
        return timed.inside_us, collect(done.output, self._read, hand.span_bytes)

    def _deal(self, data: Any) -> Deal:
        try:
            return deal(data)
        except UnsupportedInput as error:
            # It was probed, with another seed: now and then it returns something else.
            raise TaskError(f"generate_input returned {error}") from None

    def _make_room(self, hand: Deal, deadline: Deadline) -> None:
        """Where the shapes are new, let the player make room for them, before there is anything in it."""
        if hand.layout == self._layout:
            return
        self.player.send({"do": "lay", **hand.layout})
        self.player.resume()
        laid = self._expect(self.player.answer(*deadline.next_call()), Laid)
        self.player.stop()
        assert isinstance(laid, Laid)
        if len(laid.addresses) != len(hand.tensors):
            raise Foul(Verdict.SECURITY_VIOLATION, "The process answered with other addresses than it was asked for.")
        self._layout, self._addresses, self._output = hand.layout, laid.addresses, ()

    def _hand_over(self, hand: Deal, buffers: frozenset[int]) -> None:
        self._poison_output()
        for index, (tensor, address) in enumerate(zip(hand.tensors, self._addresses, strict=True)):
            length = span_bytes(tensor)
            try:
                if index in buffers:
                    self._poison(address, length)
                else:
                    cpu.write_memory(self.player.pid, address, tensor.data_ptr(), length)
            except OSError as error:
                raise self._fault(error, Verdict.RUN_TIME_ERROR, _INPUTS_GONE) from None

    def _poison_output(self) -> None:
        """Overwrite what the last call returned: a buffer that still holds it must not pass for an answer."""
        for spec in self._output:
            try:
                if spec.is_dense:
                    self._poison(spec.address, spec.span_bytes)
                else:
                    self._poison_elements(spec)
            except OSError as error:
                if error.errno != errno.EFAULT:
                    raise self._fault(error, Verdict.RUN_TIME_ERROR, "") from None
                # Freed, or read-only: then nothing in it can be returned again as new.

    def _poison_elements(self, spec: TensorSpec) -> None:
        """What lies between them is no part of the output, and stays as it is."""
        span = torch.empty(spec.span_bytes, dtype=torch.uint8)
        cpu.read_memory(self.player.pid, spec.address, span.data_ptr(), spec.span_bytes)
        elements_of(span, spec).random_()
        cpu.write_memory(self.player.pid, spec.address, span.data_ptr(), spec.span_bytes)

    def _poison(self, address: int, length: int) -> None:
        for start in range(0, length, len(_POISON)):
            size = min(len(_POISON), length - start)
            cpu.write_memory(self.player.pid, address + start, _POISON.data_ptr(), size)

    def _open_window(self, order: dict[str, Any], deadline: Deadline) -> tuple[float, Answer]:
        self.player.refuse_early_messages()
        self.player.send(order)
        ends, late = deadline.next_call()
        start = time.perf_counter_ns()
        try:
            self.player.resume()
            packet = self.player.receive(ends, late)
            self.player.stop()
        finally:
            window_us = (time.perf_counter_ns() - start) / 1e3
            self.running_s += window_us / 1e6
        self.player.refuse_early_messages()
        self.player.check_memory()  # a short window may have passed between two looks of the watchdog
        return window_us, self.player.read(packet)

    def _read(self, address: int, target: int, length: int) -> None:
        try:
            cpu.read_memory(self.player.pid, address, target, length)
        except OSError as error:
            raise self._fault(error, Verdict.WRONG_ANSWER, "The output lies in memory that can't be read.") from None

    def _fault(self, error: OSError, verdict: Verdict, message: str) -> Foul | JudgeError:
        """Tell what the player did to its memory, which gets `verdict`, from what this machine does not let us do."""
        if isinstance(error, ProcessLookupError):
            return self.player.died()
        if error.errno == errno.EFAULT:
            self.player.check_memory()  # the kernel may have ended the player for it, on this very page
            return Foul(verdict, message)
        return JudgeError(
            f"the player's memory is out of reach ({error}): the judge needs the right to trace its own processes; "
            "see kernel.yama.ptrace_scope, or a container's CAP_SYS_PTRACE"
        )

    def _expect(self, answer: Answer, kind: type[Answer]) -> Answer:
        if isinstance(answer, kind):
            return answer
        if isinstance(answer, Failed):
            raise _raised(answer)
        raise Foul(Verdict.SECURITY_VIOLATION, "The process answered something else than it was asked.")


def _raised(failed: Failed) -> Foul:
    where = f"line {failed.line}: " if failed.line else ""
    text = f"{where}{failed.error}: {explain_error(failed.message)}".strip().removesuffix(":")
    if is_out_of_memory(f"{failed.error}: {failed.message}"):
        return Foul(Verdict.MEMORY_LIMIT_EXCEEDED, text)
    if failed.error == "ModuleNotFoundError":
        text += "; it is neither beside the submission nor installed for this board: ask its organiser, or do without"
    return Foul(Verdict.RUN_TIME_ERROR, f"{text}\n\n{failed.traceback}" if failed.traceback else text)
