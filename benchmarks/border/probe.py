"""Does the time of a call on a GPU cover its work, whatever the player tries?  Stage 1 of `make check-gpu`.

A player adds one to inputs that the referee reveals (`harness/gpu/sealed_memory.py`), by a kernel that waits for S
microseconds first.  So a right output whose time is less than S is a forged time.

Needs only Python and NVIDIA's driver: no package, no compiler, no network.
"""

from __future__ import annotations

import array
import json
import secrets
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from statistics import median
from types import TracebackType
from typing import Any, Self

from benchmarks.border.kernels import PROBES
from benchmarks.border.player import GATED, ITEM
from harness.gpu.sealed_memory import SealedMemory, draw_gate
from harness.inside.cuda_driver import LIBRARY, Driver

COUNT = 1024
"""Numbers of 32 bits in a call's inputs."""
_ANSWER_S = 20.0
_STAMP_NS = 100_000
_WHILE_S = 0.1
_LOOK_NS = 1_000_000_000
"""The least time in which the referee interrupts the player's kernel."""
TOLERANCE = 0.99
"""Two clocks of a GPU agree to this share."""


class PlayerError(Exception):
    """The player failed or ended; the message says why."""


@dataclass(frozen=True, kw_only=True)
class Call:
    """One call: whether its output was right, and its time by the referee in microseconds."""

    wait_us: float
    is_right: bool
    us: float
    window_us: float
    """By the host's clock, from "go" to "done": what a referee without sealed memory measures."""

    @property
    def is_forged(self) -> bool:
        return self.is_right and self.us < TOLERANCE * self.wait_us


class Border:
    """The referee, with one player in a process of its own; `kind` is one of `player.KINDS`."""

    def __init__(self, kind: str, library: str = LIBRARY, *, size: int = COUNT * ITEM) -> None:
        self.driver = Driver(library)
        self._kind = kind
        self._size = size
        self.memory = SealedMemory(self.driver, size, size)
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._ours.settimeout(_ANSWER_S)
        command = [sys.executable, "-m", "benchmarks.border.player", kind, library]
        self._process = subprocess.Popen(command, stdin=theirs.fileno())
        theirs.close()
        self._data = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        self._ours.close()
        self.memory.__exit__(kind, error, trace)

    def give_memory(self) -> None:
        """Give the player its memory.  A second time, give the same process new memory, as if it were another one."""
        if self._data:
            self.memory.__exit__(None, None, None)
            self.memory = SealedMemory(self.driver, self._size, self._size)
        order = {"do": "map", "sizes": self.memory.sizes, "count": COUNT}
        socket.send_fds(self._ours, [json.dumps(order).encode()], self.memory.descriptors)
        self._expect()

    def play(
        self,
        wait_us: float,
        *,
        draws_anew: bool = True,
        reveals_late: bool = True,
        seals: bool = True,
        stops: bool = False,
    ) -> Call:
        """Play one call.

        Each of the next three is a defence that can be switched off.  `stops`: stop and resume the player meanwhile.
        """
        if draws_anew or not self._data:
            self._data = secrets.token_bytes(self._size)
        self._offer()
        if not reveals_late:
            self.memory.reveal()
        gate = draw_gate()
        self._ask({"do": "prepare", "ns": int(wait_us * 1000), "gate": gate})
        if reveals_late:
            self.memory.reveal(gate if self._kind in GATED else 0)
        else:
            self.memory.open_gate(gate)
        start = time.perf_counter()
        self._send({"do": "go"})
        if stops:
            self._stop_for_a_while()
        self._expect()
        window_us = (time.perf_counter() - start) * 1e6
        if not seals:
            time.sleep(2 * wait_us / 1e6)
        us = self.memory.seal()
        return Call(
            wait_us=wait_us,
            is_right=self.driver.read(self.memory.sealed.address, COUNT * ITEM)
            == _plus_one(self._data[: COUNT * ITEM]),
            us=us,
            window_us=window_us,
        )

    def _offer(self) -> None:
        self.memory.clear()
        self.driver.write(self.memory.offered.address, self._data)

    def start_endless(self) -> None:
        """Let the player launch a kernel that takes years, and stop it."""
        self._offer()
        self._ask({"do": "prepare", "ns": 1 << 60, "gate": 0})
        self.memory.reveal()
        self._send({"do": "go"})
        time.sleep(_WHILE_S)
        self._process.send_signal(signal.SIGSTOP)

    def _stop_for_a_while(self) -> None:
        time.sleep(_WHILE_S / 10)  # its kernel runs by then
        self._process.send_signal(signal.SIGSTOP)
        time.sleep(_WHILE_S)
        self._process.send_signal(signal.SIGCONT)

    def find_overlaps(self, trials: int) -> tuple[int, int, list[float]]:
        """Interrupt a kernel of the player's.

        Returns:
            How many interruptions count, how often both ran at once, and what each switch cost in microseconds.
        """
        stream, kernel = self.driver.stream(), self.driver.kernel(self.driver.load(PROBES), "stamp")
        log = self.driver.allocate(16)
        self._ask({"do": "look", "ns": _LOOK_NS + trials * 5_000_000})
        stamps: list[tuple[int, int]] = []
        for _ in range(trials):
            self.driver.launch(kernel, stream, (log.address, _STAMP_NS), threads=1)
            self.driver.call("cuStreamSynchronize", stream)
            begin, end = memoryview(self.driver.read(log.address, 16)).cast("Q")
            stamps.append((begin, end))
            time.sleep(0.001)
        (first, last), *gaps = self._expect()["times"]
        # A stamp that took longer was itself interrupted.
        counting = [
            (begin, end) for begin, end in stamps if first <= begin and end <= last and end - begin < 1.5 * _STAMP_NS
        ]
        costs: list[float] = []
        overlaps = 0
        for begin, end in counting:
            around = [(a, b) for a, b in gaps if a <= begin and end <= b]
            costs += [(b - a - (end - begin)) / 1e3 for a, b in around]
            overlaps += not around
        return len(counting), overlaps, costs

    def find_clock_error(self) -> float:
        """By which share the clock that kernels read differs from that of events, over ten milliseconds."""
        kernel, stream = self.driver.kernel(self.driver.load(PROBES), "spin"), self.driver.stream()
        start, end = self.driver.event(), self.driver.event()
        place = self.driver.allocate(ITEM)
        errors = []
        for _ in range(5):
            self.driver.call("cuEventRecord", start, stream)
            self.driver.launch(kernel, stream, (place.address, place.address, 1, 10_000_000))
            self.driver.call("cuEventRecord", end, stream)
            self.driver.call("cuStreamSynchronize", stream)
            errors.append(self.driver.elapsed_us(start, end) / 10_000 - 1)
        return min(errors, key=abs)

    def _ask(self, order: dict[str, Any]) -> dict[str, Any]:
        self._send(order)
        return self._expect()

    def _send(self, order: dict[str, Any]) -> None:
        self._ours.send(json.dumps(order).encode())

    def _expect(self) -> dict[str, Any]:
        packet = self._ours.recv(1 << 20)
        if not packet:
            raise PlayerError("the player has ended")
        answer: dict[str, Any] = json.loads(packet)
        if answer["is"] == "failed":
            raise PlayerError(answer["why"])
        return answer


def _plus_one(data: bytes) -> bytes:
    numbers = array.array("I", data)
    return array.array("I", [(number + 1) % 2**32 for number in numbers]).tobytes()


# What the probes say.

_WAITS_US = (0, 10, 30, 100, 300, 1000, 3000)
_LONG_US = 50_000
_MANY_BYTES = 1 << 30
"""After so many bytes, ten calls are enough."""
_NEEDS_FIRST_CALL = ("stale", "kept")
"""Players that use what an earlier call has left."""


def measure_clock(library: str) -> tuple[str, bool]:
    """The clock that kernels read, against events over 10 ms: in words, and whether it is as it should be."""
    with Border("honest", library) as border:
        error = border.find_clock_error()
    return f"{error:+.2%}", abs(error) <= 1 - TOLERANCE


def measure_overlaps(library: str, trials: int) -> tuple[str, bool]:
    """How often two contexts ran at once, and what a switch costs."""
    with Border("honest", library) as border:
        border.give_memory()
        counting, overlaps, costs = border.find_overlaps(trials)
    cost = f"{median(costs):.1f} µs" if costs else "unknown"
    return f"{overlaps} of {counting} overlap; a switch costs {cost}", counting >= trials // 10


def measure_nothing(library: str, calls: int, size: int) -> tuple[str, bool]:
    """The time of a call that does nothing, with so many bytes each way."""
    calls = max(min(calls, _MANY_BYTES // size), 10)
    with Border("idle", library, size=size) as border:
        border.give_memory()
        times_us = [border.play(0, draws_anew=False).us for _ in range(calls)]
    return f"{median(times_us):.1f} µs; at least {min(times_us):.1f} µs", True


def measure_stops(library: str, calls: int) -> tuple[str, bool]:
    """Stop and resume a player while its kernel runs; then kill a stopped one whose kernel never ends."""
    with Border("honest", library) as border:
        border.give_memory()
        played = [border.play(_LONG_US, stops=True) for _ in range(calls)]
        border.start_endless()
    with Border("honest", library) as border:
        border.give_memory()
        after = border.play(0)
    right = sum(call.is_right and not call.is_forged for call in played)
    last = "right" if after.is_right else "wrong"
    words = f"{right} of {calls} outputs right; after a player was killed, the next one's is {last}"
    return words, right == calls and after.is_right


def measure_player(library: str, calls: int, kind: str) -> tuple[str, bool]:
    """How many outputs of a kind of player (`player.KINDS`) are right, and how many times forged."""
    with Border(kind, library) as border:
        border.give_memory()
        if kind in _NEEDS_FIRST_CALL:
            border.play(0)
        if kind == "kept":
            border.give_memory()
        played = [border.play(wait_us) for wait_us in _WAITS_US for _ in range(calls)]
    forged = sum(call.is_forged for call in played)
    right = [call for call in played if call.is_right]
    least = f"; at least {min(call.us - call.wait_us for call in right):.1f} µs above S" if right else ""
    return f"{len(right)} of {len(played)} outputs right, {forged} times forged{least}", not forged
