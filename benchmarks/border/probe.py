"""`make probe-gpu`: does the time of a call on a GPU cover its work, whatever the player tries?  Prints tables.

A player adds one to inputs that the referee reveals (`harness/gpu/sealed_memory.py`), by a kernel that waits for S
microseconds first.  So a right output whose time is less than S is a forged time.

Needs only Python and NVIDIA's driver: no package, no compiler, no network.  `python3 -m benchmarks.border.probe` runs
in a bare checkout.  Each row is measured by a process of its own, within a time limit, and printed at once.
"""

from __future__ import annotations

import argparse
import array
import json
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from types import TracebackType
from typing import Any, Self

from benchmarks.border.kernels import PROBES
from benchmarks.border.player import ITEM, KINDS
from harness.gpu.sealed_memory import SealedMemory
from harness.inside.cuda_driver import LIBRARY, Driver, DriverError
from harness.records.errors import JudgeError

COUNT = 1024
"""Numbers of 32 bits in a call's inputs."""
_ANSWER_S = 20.0
_STAMP_NS = 100_000
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

    def seat(self) -> None:
        """Give the player its memory.  A second time, give the same process new memory, as if it were another one."""
        if self._data:
            self.memory.__exit__(None, None, None)
            self.memory = SealedMemory(self.driver, self._size, self._size)
        order = {"do": "map", "sizes": self.memory.sizes, "count": COUNT}
        socket.send_fds(self._ours, [json.dumps(order).encode()], self.memory.descriptors)
        self._expect()

    def play(self, wait_us: float, *, draws_anew: bool = True, reveals_late: bool = True, seals: bool = True) -> Call:
        """Play one call.  Each of the last three is a defence that can be switched off."""
        if draws_anew or not self._data:
            self._data = secrets.token_bytes(self._size)
        self.memory.clear()
        self.driver.write(self.memory.offered.address, self._data)
        if not reveals_late:
            self.memory.reveal()
        self._ask({"do": "prepare", "ns": int(wait_us * 1000)})
        if reveals_late:
            self.memory.reveal()
        start = time.perf_counter()
        self._ask({"do": "go"})
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
        self._ours.send(json.dumps(order).encode())
        return self._expect()

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


# The tables.

_WAITS_US = (0, 10, 30, 100, 300, 1000, 3000)
_SIZES = (4 << 10, 64 << 10, 1 << 20, 16 << 20, 256 << 20)
_TRIALS = 500
_ROW_S = 120.0
_ROWS = {
    "clock": "the clock that kernels read, against events over 10 ms",
    "exclusive": "how often two contexts ran at once, and what a switch costs",
    **{f"null {size}": f"a call that does nothing, {size >> 10:,} KiB each way" for size in _SIZES},
    **{kind: kind for kind in KINDS if kind not in ("idle", "wrong size", "killed")},
}
_NEEDS_FIRST_CALL = ("stale", "kept")
"""Players that use what an earlier call has left."""


def measure(row: str, library: str, calls: int) -> tuple[str, bool]:
    """One row of the table in words, and whether it is as it should be."""
    kind, _, size = row.partition(" ") if row.startswith("null ") else (row, "", "")
    if kind == "null":
        with Border("idle", library, size=int(size)) as border:
            border.seat()
            return f"{median(border.play(0).us for _ in range(calls)):.1f} µs", True
    with Border("honest" if kind in ("clock", "exclusive") else kind, library) as border:
        border.seat()
        if kind == "clock":
            error = border.find_clock_error()
            return f"{error:+.2%}", abs(error) <= 1 - TOLERANCE
        if kind == "exclusive":
            counting, overlaps, costs = border.find_overlaps(_TRIALS)
            cost = f"{median(costs):.1f} µs" if costs else "unknown"
            return f"{overlaps} of {counting} overlap; a switch costs {cost}", counting >= _TRIALS // 10
        if kind in _NEEDS_FIRST_CALL:
            border.play(0)
        if kind == "kept":
            border.seat()
        played = [border.play(wait_us) for wait_us in _WAITS_US for _ in range(calls)]
    forged = sum(call.is_forged for call in played)
    right = [call for call in played if call.is_right]
    least = f"; at least {min(call.us - call.wait_us for call in right):.1f} µs above S" if right else ""
    return f"{len(right)} of {len(played)} outputs right, {forged} times forged{least}", not forged


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 1 if a time was forged or a row failed."""
    parser = argparse.ArgumentParser(prog="make probe-gpu", description="Probe the border on a GPU; print a table.")
    parser.add_argument("--library", default=LIBRARY, help=f"the driver's library; default: {LIBRARY}")
    parser.add_argument("--calls", type=int, default=100, help="calls per row and S; default: 100")
    parser.add_argument("--row", choices=list(_ROWS), help="measure this row only, in this process")
    options = parser.parse_args(arguments)
    library, calls, row = options.library, options.calls, options.row
    if row:
        try:
            words, is_good = measure(row, library, calls)
        except (DriverError, JudgeError, OSError, PlayerError) as error:
            words, is_good = str(error), False
        _print(words)
        return int(not is_good)
    _print("| probe | |\n|---|---|")
    is_good = True
    for name, title in _ROWS.items():
        command = [sys.executable, "-m", "benchmarks.border.probe", "--library", library, "--calls", str(calls)]
        try:
            done = subprocess.run(
                [*command, "--row", name], capture_output=True, text=True, timeout=_ROW_S, check=False
            )
            failed, words = done.returncode != 0, done.stdout.strip() or done.stderr.strip()[-300:]
        except subprocess.TimeoutExpired:
            failed, words = True, f"it took more than {_ROW_S:g} s"
        is_good = is_good and not failed
        _print(f"| {title} | {'FAILED: ' if failed else ''}{words} |")
    return int(not is_good)


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
