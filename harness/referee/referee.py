"""Referee one player, call by call: hand over the inputs, time the call, read the output, check it.

    player  stopped ──────────────┐ runs: the window ┌ stopped ─────────────────────────────
    referee  generate · write · go ┴───── clock ──────┴ read · poison · write · go · … · check

The player runs only inside windows (and while it allocates memory for inputs of a new shape, before they exist).
So all of its work on an input happens between two readings of the referee's clock: `resume` and confirmed `stop`.

How inputs and outputs pass between the two, and which clock counts, depends on the device (`harness.referee.exchange`).
"""

from __future__ import annotations

import contextlib
import hashlib
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch

from harness.gpu.device import CPU, Device
from harness.inside.protocol import Compiled, Counted, Failed, Loaded, Profiled
from harness.processes.cpu_meter import CpuMeter
from harness.records.errors import JudgeError, TaskError
from harness.records.judgement import Digests
from harness.records.profile import MAX_OPERATIONS, CpuCounters, Operation, Profile
from harness.records.stats import median
from harness.records.verdict import Foul, Verdict
from harness.referee.digest import digest
from harness.referee.exchange import Exchange
from harness.referee.host_memory import HostMemory
from harness.referee.orders import Deadline, Orders, expect
from harness.referee.sealed import Sealed, driver_of
from harness.referee.self_timing import Outside
from harness.referee.staged import Staged
from harness.reference.reference import Reference, Returned
from harness.reference.values import Flattened, UnsupportedInput, flatten
from harness.sandbox.player_handle import PlayerHandle
from harness.task.compile import Recipe, explain, ran_out_of_memory

_BATCH_BYTES = 256 << 20
"""Total size of the inputs that are generated ahead of their windows."""
_SEEDS = 2**31
"""Seeds are below this number, which every library's generator accepts."""
_OVERWRITTEN = (
    "\nThis memory held the last output, too, which the judge overwrites between calls. A file that keeps an output "
    "must write all of it in every call."
)


Params = Mapping[str, Any]


class Referee:
    """Referees one player.  `close` it after the player has ended."""

    def __init__(
        self,
        player: PlayerHandle,
        reference: Reference,
        device: Device = CPU,
        library: str = "",
        *,
        first_call_s: float = 0.0,
    ) -> None:
        """`library` is the driver's, for a device whose memory is sealed."""
        self.player = player
        self.reference = reference
        self.device = device
        self.orders = Orders(player, first_call_s)
        self.outside: list[Outside] = []
        """The referee's measurements of each call on a staged device."""
        self.digests: Digests | None = None
        """Digests of the last call with `digested`."""
        self._making_s: list[float] = []
        self._checking_s: list[float] = []
        """Seconds that making the inputs and checking the outputs of each window took."""
        self._room: tuple[Params, int] | None = None
        self._torch_device = torch.device(device.name) if device.is_sealed else torch.device("cpu")
        self.exchange = self._find_exchange(library)

    def _find_exchange(self, library: str) -> Exchange:
        if self.device.is_sealed:
            return Sealed(self.orders, driver_of(library), self._torch_device)
        if self.device.is_staged:
            staged = Staged(self.orders, self.device.referee_side)
            self.outside = staged.outside
            return staged
        return HostMemory(self.orders)

    def close(self) -> None:
        self.exchange.close()

    @property
    def is_queued(self) -> bool:
        """Whether the player queued its work on a GPU in the last window before the inputs were revealed."""
        return isinstance(self.exchange, Sealed) and self.exchange.is_queued

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
        compiled = expect(answer, Compiled)
        if compiled.status == 0:
            return
        if ran_out_of_memory(compiled.output):
            raise Foul(Verdict.MEMORY_LIMIT_EXCEEDED, "The compiler needs more memory than memory_gib allows.")
        raise Foul(Verdict.COMPILE_ERROR, explain(compiled.status, compiled.output))

    def load(self, seconds: float, limit: str = "compile_timeout") -> None:
        """Have the player import the submission, then stop it.  Raises Foul if the import fails."""
        self.exchange.prepare_device()
        self.player.send({"do": "load"})
        try:
            late = f"Importing the submission took more than {seconds:g} s ({limit})."
            answer = self.player.answer(time.monotonic() + seconds, late)
            expect(answer, Loaded)
        except Foul as foul:
            if foul.verdict is Verdict.RUN_TIME_ERROR:
                raise Foul(Verdict.COMPILE_ERROR, foul.message) from None
            raise
        self.player.stop()
        self.player.check_memory()  # before the referee needs its share of GPU memory

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
        per_window: int = 1,
        is_idle: bool = False,
        after_windows: Callable[[], None] = lambda: None,
    ) -> tuple[float, ...]:
        """Call `custom_kernel` on fresh inputs for each seed.

        Inputs are generated before the first window of a batch, and outputs checked after its last: a player that
        waits for milliseconds between windows finds cold caches, which would count as its time.

        Args:
            digested: keep the digests of the first call.
            per_window: how many calls each window holds, if the device's memory is sealed.  The first has the inputs of
                the given seed, the others have seeds derived from it.
            is_idle: the player computes nothing, and the overhead of a call is wanted.
            after_windows: called after the last window of each batch, before anything else is done.

        Returns:
            The time of a call in microseconds, for each seed; on a staged device what the player reports.

        Raises:
            Foul: an output is wrong, or the player broke a rule or a limit.
            TaskError: the task's own code failed.
        """
        returned = self.reference.returned(params)
        self._make_room(params, returned, per_window, deadline)
        times: list[float] = []
        while len(times) < len(seeds):
            times += self._play_batch(
                self._deal_batch(params, returned, seeds[len(times) :], per_window),
                returned,
                deadline,
                partial(self.reference.generate, params, seeds[len(times)]),
                checked=checked,
                digested=digested and not times,
                is_idle=is_idle,
                after_windows=after_windows,
            )
        return tuple(times)

    def _play_batch(
        self,
        batch: Sequence[Sequence[Flattened]],
        returned: Returned,
        deadline: Deadline,
        regenerate: Callable[[], Any],
        *,
        checked: bool,
        digested: bool,
        is_idle: bool,
        after_windows: Callable[[], None],
    ) -> list[float]:
        """Play the windows of a batch, and check their outputs; arguments as for `calls`.

        `regenerate` generates the first inputs once more, for a check without a copy if these are large.

        When it returns, the memory of inputs and outputs is free for the next batch.
        """
        times: list[float] = []
        outputs: list[list[Any]] = []
        reused: list[bool] = []
        for inputs in batch:
            self.exchange.make_room(inputs, returned, deadline)
            # The limit's looks at the machine's memory would interrupt a window that this process times.
            with contextlib.nullcontext() if self.device.is_sealed else self.reference.memory:
                time_us, found = self.exchange.play(inputs, deadline, is_idle=is_idle)
            times.append(time_us)
            outputs.append(found)
            reused.append(self.exchange.reuses_output)
        after_windows()
        is_large = len(batch[0]) == 1 and batch[0][0].span_bytes > _BATCH_BYTES
        if digested:  # before the task's own code can change them
            self.digests = Digests(inputs=digest(batch[0][0].data), outputs=digest(outputs[0][0]))
        for inputs, found, is_reused in zip(batch, outputs, reused, strict=True):
            with self._timing(self._checking_s):
                for flat, output in zip(inputs, found, strict=not is_idle):
                    again = regenerate if is_large else None
                    if checked and (message := self.reference.check(flat.data, output, again)):
                        raise Foul(Verdict.WRONG_ANSWER, message + _OVERWRITTEN * is_reused)
        return times

    @property
    def work_s(self) -> float:
        """How long making the inputs of a window and checking its outputs took in `calls`: the medians, in seconds."""
        return sum(median(times_s) for times_s in (self._making_s, self._checking_s) if times_s)

    @contextlib.contextmanager
    def _timing(self, times_s: list[float]) -> Iterator[None]:
        began = self.reference.settled_at()
        yield
        times_s.append(self.reference.settled_at() - began)

    def measure_cpu(self, params: Params, seed: int, deadline: Deadline) -> CpuCounters | None:
        """What a call costs the CPU; None if the kernel does not say.  Raises as `calls` does."""
        with CpuMeter(self.player.pid) as meter:
            self.calls(params, (seed,), deadline, after_windows=meter.stop)
        return meter.counters

    def profile(self, params: Params, seed: int, deadline: Deadline) -> Profile:
        """One call under the player's own profiler, whose results are untrusted; the output is checked.

        Raises as `calls` does.
        """
        flat = self._reveal_input(params, seed, deadline)
        answer = self.orders.open_window({"do": "profile", "scalars": [flat.scalars]}, deadline)[1]
        profiled = expect(answer, Profiled)
        if message := self.reference.check(flat.data, self.exchange.fetch(flat, deadline)):
            raise Foul(Verdict.WRONG_ANSWER, message)
        operations = [
            Operation(name=name, on_device=on_device, calls=calls, own_us=own_us)
            for name, on_device, calls, own_us in profiled.operations[:MAX_OPERATIONS]
        ]
        # A forged time may be 0, which the model rejects.
        return Profile(call_us=max(profiled.call_us, 0.001), operations=tuple(operations))

    def count(self, params: Params, seed: int, deadline: Deadline) -> None:
        """One call under a vendor's profiler; its output is not read.  Raises as `calls` does."""
        flat = self._reveal_input(params, seed, deadline)
        expect(self.orders.open_window({"do": "count", "scalars": [flat.scalars]}, deadline)[1], Counted)

    def _make_room(self, params: Params, returned: Returned, calls: int, deadline: Deadline) -> None:
        """Have the player make room on its device before the referee has used memory there for inputs that count.

        What the referee frees there may be what the player gets, and NVIDIA does not promise that it is cleared.
        """
        if self.device.is_sealed and self._room != (params, calls):
            flat = self._flatten(self.reference.generate(params, secrets.randbelow(_SEEDS)))
            self.exchange.make_room([flat] * calls, returned, deadline)
            self._room = params, calls

    def _reveal_input(self, params: Params, seed: int, deadline: Deadline) -> Flattened:
        self._make_room(params, self.reference.returned(params), 1, deadline)
        flat = self._flatten(self.reference.generate(params, seed))
        self.exchange.make_room([flat], self.reference.returned(params), deadline)
        self.exchange.reveal(flat, deadline)
        return flat

    def _deal_batch(
        self, params: Params, returned: Returned, seeds: Sequence[int], per_window: int
    ) -> list[list[Flattened]]:
        """Generate inputs for the next windows, as many as fit into `_BATCH_BYTES`; equal seeds in a row share them."""
        batch: list[list[Flattened]] = []
        room = _BATCH_BYTES
        for before, seed in zip((None, *seeds), seeds, strict=False):
            if batch and seed == before:
                batch.append(batch[-1])
            else:
                drawn = [_derive(seed, number) for number in range(per_window)]
                with self._timing(self._making_s):
                    batch.append([self._flatten(self.reference.generate(params, one)) for one in drawn])
                room -= sum(flat.span_bytes for flat in batch[-1])
            room -= per_window * sum(returned.fresh_bytes)  # the outputs are kept until the checks, too
            if room < 0:
                break
        return batch

    def _flatten(self, data: Any) -> Flattened:
        try:
            return flatten(data, self._torch_device)
        except UnsupportedInput as error:
            # `probe` accepted the case with another seed, so the generator's return type depends on the seed.
            raise TaskError(f"generate_input returned {error}") from None


def _derive(seed: int, number: int) -> int:
    """The seed of a window's call: unrelated to the others, as a generator may draw row i from `seed + i`."""
    if not number:
        return seed
    return int.from_bytes(hashlib.sha256(f"{seed} {number}".encode()).digest()[:4]) % _SEEDS
