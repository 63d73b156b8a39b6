"""Send orders to one player, let it run until it has answered, and stop it again.

player   stopped ──────────────┐ runs: the window ┌ stopped ────
referee   …  the inputs · send ┴───── clock ──────┴ the outputs …
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from harness.gpu.gpu_errors import advise, is_out_of_memory
from harness.gpu.gpu_errors import explain as explain_error
from harness.inside.protocol import QUEUED, Allocated, Answer, Done, Failed, Opened
from harness.records.errors import JudgeError
from harness.records.verdict import Foul, Verdict
from harness.sandbox.player_handle import PlayerHandle

_QUEUE_S = 0.05
"""How long to wait until a player has queued its work.  Code that first needs a result never queues all of it."""
_OPEN_S = 60.0
"""How long a player may take to open its device: create a context and a buffer for flushing caches."""
_Expected = TypeVar("_Expected", bound=Answer)


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
    def left_s(self) -> float:
        """Seconds until the phase ends; 0 after that."""
        return max(0.0, self.phase_ends - time.monotonic())

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

    def next_call(self, least_s: float = 0.0) -> tuple[float, str]:
        """When the next call must end, and the message if it doesn't; its own limit is at least `least_s`."""
        call_s = max(self.call_s, least_s)
        ends = time.monotonic() + call_s
        if ends < self.phase_ends:
            return ends, f"A call took more than {call_s:g} s."
        return self.phase_ends, f"All calls together took more than {self.phase_s:g} s."


class Orders:
    """The referee's orders to one player."""

    def __init__(self, player: PlayerHandle, first_call_s: float = 0.0) -> None:
        """`first_call_s` is how long the player's first call may take, if that is longer than any other's."""
        self.player = player
        self._first_call_s = first_call_s
        self.running_s = 0.0
        """Seconds from resuming to stopping the player, since it was loaded."""
        self.starved_s = 0.0
        """Those of them in which other programs kept it from running."""
        self.gaps_s = 0.0
        """Seconds that the referee took to read and overwrite outputs that have gaps between their elements."""

    def open_device(self, order: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
        """Have the player open its device before it reads the submission, so that a failure here is the judge's."""
        self.player.send({"do": "open", **order}, descriptors)
        try:
            answer = self.player.answer(time.monotonic() + _OPEN_S, f"it took more than {_OPEN_S:g} s")
        except Foul as foul:
            raise JudgeError(f"a player could not open its GPU: {foul.message}") from None
        if isinstance(answer, Failed):
            raise JudgeError(f"a player could not open its GPU, but the referee could: {advise(answer.message)}")
        expect(answer, Opened)

    def allocate(self, order: dict[str, Any], deadline: Deadline, descriptors: Sequence[int] = ()) -> Allocated:
        """Have the player make room for inputs of new shapes, before they exist."""
        self.player.send({"do": "allocate", **order}, descriptors)
        starved_s, start = self.player.starved_s, time.perf_counter()
        try:
            self.player.resume()
            packet = self.player.receive(*deadline.next_call())
            self.player.stop()
        finally:
            self._count(time.perf_counter() - start, self.player.starved_s - starved_s, deadline)
        return expect(self.player.read(packet), Allocated)

    def open_window(
        self,
        order: dict[str, Any],
        deadline: Deadline,
        at_end: Callable[[], None] = lambda: None,
        *,
        reveal: Callable[[bool], None] | None = None,
    ) -> tuple[float, Answer]:
        """Let the player carry out an order; return how long that took, in microseconds, and its answer.

        Args:
            at_end: called as soon as the player has answered; it may still run.
            reveal: called with True once the player has queued its work, or with False if that takes too long.
        """
        is_call = order["do"] == "go"
        self.player.refuse_early_messages()
        self.player.send(order)
        ends, late = deadline.next_call(self._first_call_s if is_call else 0.0)
        if is_call:
            self._first_call_s = 0.0
        starved_s, start = self.player.starved_s, time.perf_counter_ns()
        try:
            self.player.resume()
            packet = self._play_queued(reveal, ends, late) if reveal else self.player.receive(ends, late)
            at_end()
            self.player.stop()
        finally:
            window_us = (time.perf_counter_ns() - start) / 1e3
            self._count(window_us / 1e6, self.player.starved_s - starved_s, deadline)
        self.player.refuse_early_messages()
        self.player.check_memory()  # the watchdog may have missed a short window
        return window_us, self.player.read(packet)

    def _play_queued(self, reveal: Callable[[bool], None], ends: float, late: str) -> bytes:
        """Reveal the inputs once the player has queued its work, or takes too long; return its answer."""
        packet = self.player.receive(ends, late) if self.player.has_message(_QUEUE_S) else b""
        reveal(packet == QUEUED)
        packet = packet or self.player.receive(ends, late)
        return self.player.receive(ends, late) if packet == QUEUED else packet

    def fetch(self, deadline: Deadline) -> Done:
        """Have the player put its output where the referee can read it, and describe it."""
        return expect(self.open_window({"do": "fetch"}, deadline)[1], Done)

    def _count(self, running_s: float, starved_s: float, deadline: Deadline) -> None:
        """Count the time of a window, and extend the phase by the time that other programs took from it."""
        self.running_s += running_s
        self.starved_s += starved_s
        deadline.phase_ends += starved_s


def expect(answer: Answer, kind: type[_Expected]) -> _Expected:
    """The answer, if it is of this kind.  Raises Foul otherwise."""
    if isinstance(answer, kind):
        return answer
    if isinstance(answer, Failed):
        raise raised(answer)
    raise Foul(Verdict.SECURITY_VIOLATION, "The process sent an unexpected answer.")


def _no_module(message: str) -> str:
    if message.endswith("'reference'"):
        return "; submissions do not see the task's reference"
    return (
        "; it is not installed for this board. Check the name, or ask the organisers to install it. "
        "A submission is one file, which can import the task's other files"
    )


def raised(failed: Failed) -> Foul:
    """The foul for what a submission has raised."""
    where = f"line {failed.line}: " if failed.line else ""
    text = f"{where}{failed.error}: {explain_error(failed.message)}".strip().removesuffix(":")
    if is_out_of_memory(f"{failed.error}: {failed.message}"):
        return Foul(Verdict.MEMORY_LIMIT_EXCEEDED, text)
    if failed.error == "ModuleNotFoundError":
        text += _no_module(failed.message)
    return Foul(Verdict.RUN_TIME_ERROR, f"{text}\n\n{failed.traceback}" if failed.traceback else text)
