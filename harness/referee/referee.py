"""Referee one player, call by call: write the inputs, time the call, read the output, check it.

    player  stopped ──────────────┐ runs: the window ┌ stopped ─────────────────────────────
    referee  generate · write · go ┴───── clock ──────┴ read · poison · write · go · … · check

The player runs only inside windows (and while it allocates memory for inputs of a new shape, before they exist).
So all of its work on an input happens between two readings of the referee's clock: `resume` and confirmed `stop`.

On a staged device (`harness.gpu.device`) the player has two more steps: it copies the inputs to the device before its
window, and the outputs back after it.  The player then reports the time of the call itself, and the referee measures
how long each step takes.  Between steps, the referee flushes the device caches and checks that the device is idle
(`harness.referee.self_timing`).
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
"""Total size of the inputs that are generated ahead of their windows."""
_INPUTS_GONE = "The memory of the inputs was freed or made read-only."
_OPEN_S = 60.0
"""How long a player may take to open its device: create a context and a buffer for flushing caches."""


Params = Mapping[str, Any]


@dataclass
class Deadline:
    """When a phase ends, and how long each call in it may take."""

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
        """Seconds of the phase used so far."""
        return time.monotonic() - (self.phase_ends - self.phase_s)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Do not count the time of the block; extends the phase by as much."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.phase_ends += time.monotonic() - began

    def next_call(self) -> tuple[float, str]:
        """When the next call must end, and the message if it doesn't."""
        ends = time.monotonic() + self.call_s
        if ends < self.phase_ends:
            return ends, f"A call took more than {self.call_s:g} s."
        return self.phase_ends, f"All calls together took more than {self.phase_s:g} s."


class Referee:
    """Referees one player."""

    def __init__(self, player: PlayerHandle, reference: Reference, device: Device = CPU) -> None:
        self.player = player
        self.reference = reference
        self.device = device
        self.outside: list[Outside] = []
        """The referee's measurements of each call on a staged device."""
        self.digests: Digests | None = None
        """Digests of the last call with `digested`."""
        self._layout: Any = None
        self._addresses: tuple[int, ...] = ()
        self._output: tuple[TensorSpec, ...] = ()
        self.running_s = 0.0
        """Seconds from resuming to stopping the player, since it was loaded."""
        self.starved_s = 0.0
        """Those of them in which other programs kept it from running."""

    def compile(self, recipe: Recipe, seconds: float) -> None:
        """Have the player compile the submission, without running it.

        Raises:
            Foul: it does not compile, or takes too much time or memory.
            JudgeError: the compiler cannot be run on this machine.
        """
        self.player.send({"do": "compile", "command": recipe.command})
        late = f"Compiling the submission took more than {seconds:g} s (compile_timeout)."
        answer = self.player.answer(time.monotonic() + seconds, late)
        if isinstance(answer, Failed):
            raise JudgeError(f"{recipe.command[0]} could not be run: {answer.error}: {answer.message}")
        compiled = self._expect(answer, Compiled)
        assert isinstance(compiled, Compiled)
        if compiled.status == 0:
            return
        if ran_out_of_memory(compiled.output):
            raise Foul(Verdict.MEMORY_LIMIT_EXCEEDED, "The compiler needs more memory than memory_gib allows.")
        raise Foul(Verdict.COMPILE_ERROR, explain(compiled.status, compiled.output))

    def load(self, seconds: float, limit: str = "compile_timeout") -> None:
        """Have the player import the submission, then stop it.  Raises Foul if the import fails."""
        if self.device.is_staged:
            self._open_device()
        self.player.send({"do": "load"})
        try:
            late = f"Importing the submission took more than {seconds:g} s ({limit})."
            answer = self.player.answer(time.monotonic() + seconds, late)
            self._expect(answer, Loaded)
        except Foul as foul:
            if foul.verdict is Verdict.RUN_TIME_ERROR:
                raise Foul(Verdict.COMPILE_ERROR, foul.message) from None
            raise
        self.player.stop()
        self.player.check_memory()  # before the referee needs its share of GPU memory

    def _open_device(self) -> None:
        """Have the player open its device before it reads the submission, so that a failure here is the judge's."""
        self.player.send({"do": "open"})
        try:
            answer = self.player.answer(time.monotonic() + _OPEN_S, f"it took more than {_OPEN_S:g} s")
        except Foul as foul:
            raise JudgeError(f"a player could not open its GPU: {foul.message}") from None
        if isinstance(answer, Failed):
            raise JudgeError(f"a player could not open its GPU, but the referee could: {advise(answer.message)}")
        self._expect(answer, Opened)

    def call(
        self, params: Params, seed: int, deadline: Deadline, *, checked: bool = True, digested: bool = False
    ) -> float:
        """Call `custom_kernel` once on fresh inputs; return its time in microseconds.  Raises as `calls` does."""
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
        """Call `custom_kernel` on fresh inputs for each seed.

        Inputs are generated before the first window of a batch, and outputs checked after its last: a player that
        waits for milliseconds between windows finds cold caches, which would count as its time.

        Args:
            digested: keep the digests of the first call.
            after_windows: called after the last window of each batch, before anything else is done.

        Returns:
            Times in microseconds: windows, or on a staged device what the player reports.

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
            if digested and len(windows) == len(batch):  # before the task's own code can change them
                self.digests = Digests(inputs=digest(batch[0].data), outputs=digest(outputs[0]))
            for hand, output in zip(batch, outputs, strict=True):
                if checked and (message := self.reference.check(hand.data, output)):
                    raise Foul(Verdict.WRONG_ANSWER, message)
        return tuple(windows)

    def profile(self, params: Params, seed: int, deadline: Deadline) -> Profile:
        """One call under the player's own profiler, whose results are untrusted; the output is checked.

        Raises as `calls` does.
        """
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
        # A forged time may be 0, which the model rejects.
        return Profile(call_us=max(profiled.call_us, 0.001), operations=tuple(operations))

    def watch(self, params: Params, seed: int, deadline: Deadline) -> None:
        """One call under a vendor's profiler; its output is not read.  Raises as `calls` does."""
        hand = self._deal(self.reference.generate(params, seed))
        self._make_room(hand, deadline)
        self._hand_over(hand, self.reference.output_buffers(params))
        if self.device.is_staged:
            self._expect(self._open_window({"do": "fill"}, deadline)[1], Filled)
        self._expect(self._open_window({"do": "watch", "scalars": hand.scalars}, deadline)[1], Watched)

    def _deal_batch(self, params: Params, seeds: Sequence[int]) -> list[Deal]:
        """Generate inputs for the next calls, as many as fit into `_BATCH_BYTES`."""
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
        """Play one call on a staged device.

        A kernel left running on the device may see the inputs as soon as they are written, so the time is bounded by
        the span from then to the last stop.
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
        # The output is in host copies made by the player, so there is nothing to poison.
        return timed.inside_us, collect(done.output, self._read, hand.span_bytes)

    def _deal(self, data: Any) -> Deal:
        try:
            return deal(data)
        except UnsupportedInput as error:
            # `probe` accepted the case with another seed, so the generator's return type depends on the seed.
            raise TaskError(f"generate_input returned {error}") from None

    def _make_room(self, hand: Deal, deadline: Deadline) -> None:
        """If the shapes are new, have the player allocate memory for the inputs before they are written."""
        if hand.layout == self._layout:
            return
        self.player.send({"do": "lay", **hand.layout})
        starved_s, start = self.player.starved_s, time.perf_counter()
        try:
            self.player.resume()
            packet = self.player.receive(*deadline.next_call())
            self.player.stop()
        finally:
            self._count(time.perf_counter() - start, self.player.starved_s - starved_s, deadline)
        laid = self._expect(self.player.read(packet), Laid)
        assert isinstance(laid, Laid)
        if len(laid.addresses) != len(hand.tensors):
            raise Foul(Verdict.SECURITY_VIOLATION, "The process returned a wrong number of input addresses.")
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
        """Overwrite the last call's output, so that a stale buffer cannot pass as the next answer."""
        for spec in self._output:
            try:
                if spec.is_dense:
                    self._poison(spec.address, spec.span_bytes)
                else:
                    self._poison_elements(spec)
            except OSError as error:
                if error.errno != errno.EFAULT:
                    raise self._fault(error, Verdict.RUN_TIME_ERROR, "") from None
                # Freed or read-only: then the next call cannot return it as its output.

    def _poison_elements(self, spec: TensorSpec) -> None:
        """Overwrite the elements of a strided tensor; the gaps between them are not part of the output."""
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
        starved_s, start = self.player.starved_s, time.perf_counter_ns()
        try:
            self.player.resume()
            packet = self.player.receive(ends, late)
            self.player.stop()
        finally:
            window_us = (time.perf_counter_ns() - start) / 1e3
            self._count(window_us / 1e6, self.player.starved_s - starved_s, deadline)
        self.player.refuse_early_messages()
        self.player.check_memory()  # the watchdog may have missed a short window
        return window_us, self.player.read(packet)

    def _count(self, running_s: float, starved_s: float, deadline: Deadline) -> None:
        """Count the time of a window; the phase does not have to make up for what other programs took of it."""
        self.running_s += running_s
        self.starved_s += starved_s
        deadline.phase_ends += starved_s

    def _read(self, address: int, target: int, length: int) -> None:
        try:
            cpu.read_memory(self.player.pid, address, target, length)
        except OSError as error:
            raise self._fault(error, Verdict.WRONG_ANSWER, "The output is in memory that cannot be read.") from None

    def _fault(self, error: OSError, verdict: Verdict, message: str) -> Foul | JudgeError:
        """Distinguish what the player did to its memory, a foul with `verdict`, from missing rights of the judge."""
        if isinstance(error, ProcessLookupError):
            return self.player.died()
        if error.errno == errno.EFAULT:
            self.player.check_memory()  # the kernel may have killed the player for its memory use at this page
            return Foul(verdict, message)
        if error.errno == errno.EPERM and self.player.hides_its_memory:
            return Foul(Verdict.SECURITY_VIOLATION, "The process made its memory unreadable to the referee.")
        return JudgeError(
            f"cannot access the player's memory ({error}): the judge needs the right to trace its own processes; "
            "check kernel.yama.ptrace_scope, or the container's CAP_SYS_PTRACE"
        )

    def _expect(self, answer: Answer, kind: type[Answer]) -> Answer:
        if isinstance(answer, kind):
            return answer
        if isinstance(answer, Failed):
            raise _raised(answer)
        raise Foul(Verdict.SECURITY_VIOLATION, "The process sent an unexpected answer.")


def _raised(failed: Failed) -> Foul:
    where = f"line {failed.line}: " if failed.line else ""
    text = f"{where}{failed.error}: {explain_error(failed.message)}".strip().removesuffix(":")
    if is_out_of_memory(f"{failed.error}: {failed.message}"):
        return Foul(Verdict.MEMORY_LIMIT_EXCEEDED, text)
    if failed.error == "ModuleNotFoundError":
        text += "; it is not installed for this board: ask the organisers to install it, or do without it"
    return Foul(Verdict.RUN_TIME_ERROR, f"{text}\n\n{failed.traceback}" if failed.traceback else text)
