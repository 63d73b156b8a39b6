"""The player of `probe`: adds one to its inputs after a given time, honestly or in one of many dishonest ways.

    python -m benchmarks.border.player KIND LIBRARY        stdin is a socket to the referee

Orders are JSON objects: `map` with the sizes of inputs and outputs, and their two descriptors; `prepare` before the
inputs are revealed; `go` after it; `look` for gaps in the GPU's time.  Each gets an answer.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
from collections.abc import Callable
from ctypes import c_size_t, c_uint, c_ulonglong
from typing import Any

from benchmarks.border.kernels import PROBES
from harness.inside.cuda_driver import Driver, DriverError, Mapping
from harness.inside.protocol import gate_of

_LEAST_NS = 10_000
_MOST_GAPS = 3_000
ITEM = 4
"""Bytes of a number."""


class BorderPlayer:
    """`kind` is a key of `KINDS`."""

    def __init__(self, kind: str, library: str, referee: socket.socket) -> None:
        self.driver = Driver(library)
        self.referee = referee
        module = self.driver.load(PROBES)
        self.spin, self.poll, self.gaps = (self.driver.kernel(module, name) for name in ("spin", "poll", "gaps"))
        self.stream, self.aside = self.driver.stream(), self.driver.stream()
        self.prepare, self.go = KINDS[kind]
        self.kind = kind
        self.stash = b""
        self.ns = self.gate = 0
        self.has_answered = False
        self.kept: Mapping | None = None

    def obey(self, order: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        match order["do"]:
            case "map":
                self.count = order["count"]
                self._map(order["sizes"], descriptors)
            case "prepare":
                self.ns, self.gate = order["ns"], order["gate"]
                self.prepare(self)
            case "go":
                self.go(self)
            case "look":
                return {"is": "done", "times": self._look(order["ns"])}
        return {"is": "done"}

    def _map(self, sizes: list[int], descriptors: list[int]) -> None:
        if self.kind == "wrong size":
            sizes = [sizes[0], sizes[1] // 2]
        if self.kind == "swapped":
            sizes, descriptors = sizes[::-1], descriptors[::-1]
        if self.kind == "kept":
            self.kept = self.kept or self.driver.open(descriptors[0], sizes[0])
        self.inputs, self.outputs = (
            self.driver.open(descriptor, size) for descriptor, size in zip(descriptors, sizes, strict=True)
        )
        if self.kind == "second mapping":
            self.outputs = self.driver.open(descriptors[1], sizes[1])
        for descriptor in descriptors:
            os.close(descriptor)

    def launch(self, kernel: Any, stream: Any, *more: int, source: int = 0, ns: int | None = None) -> None:
        place, wait_ns = source or self.inputs.address, self.ns if ns is None else ns
        self.driver.launch(kernel, stream, (self.outputs.address, place, self.count, wait_ns, *more))

    def synchronize(self) -> None:
        self.driver.call("cuStreamSynchronize", self.stream)

    def answer(self) -> None:
        """Say "done" before the order is carried out."""
        self.referee.send(b'{"is":"done"}')
        self.has_answered = True

    def _look(self, ns: int) -> list[tuple[int, int]]:
        """Run a kernel for `ns`; return its begin and end in nanoseconds, and those of the gaps in its time."""
        log = self.driver.allocate(24 + 16 * _MOST_GAPS)
        self.driver.launch(self.gaps, self.stream, (log.address, _MOST_GAPS, _LEAST_NS, ns), threads=1)
        self.answer()  # the referee now interrupts
        self.synchronize()
        words = memoryview(self.driver.read(log.address, log.size)).cast("Q")
        return [(words[2 * i + 1], words[2 * i + 2]) for i in range(1 + words[0])]


def _nothing(_: BorderPlayer) -> None:
    pass


def _honest(player: BorderPlayer) -> None:
    player.launch(player.spin, player.stream)
    player.synchronize()


def _unfinished(player: BorderPlayer) -> None:
    """Say "done" while the kernel still runs."""
    player.launch(player.spin, player.aside)


def _poll(player: BorderPlayer) -> None:
    """Launch a kernel that waits until something else is in the place of the inputs."""
    (old,) = memoryview(player.driver.read(player.inputs.address, ITEM)).cast("I")
    player.launch(player.poll, player.stream, old)


def _queue(player: BorderPlayer) -> None:
    """Launch a kernel that waits until the referee opens the gate, as honest players do."""
    gate = gate_of(player.inputs.address, player.inputs.size)
    player.driver.wait_for_value(player.stream.value, gate, player.gate)
    player.launch(player.spin, player.stream)


def _open(player: BorderPlayer) -> None:
    """Open the gate before there are inputs."""
    _queue(player)
    gate = gate_of(player.inputs.address, player.inputs.size)
    player.driver.call("cuMemsetD32Async", c_ulonglong(gate), c_uint(player.gate), c_size_t(1), player.aside)
    player.synchronize()


def _wait(player: BorderPlayer) -> None:
    player.synchronize()


def _guess(player: BorderPlayer) -> None:
    """Compute before the inputs are revealed, on what is in their place."""
    player.launch(player.spin, player.stream)
    player.synchronize()
    player.stash = player.driver.read(player.outputs.address, player.count * ITEM)


def _hand_in(player: BorderPlayer) -> None:
    player.driver.write(player.outputs.address, player.stash)


def _stale(player: BorderPlayer) -> None:
    """Compute the first answer, and hand it in again and again."""
    if not player.stash:
        _honest(player)
        player.stash = player.driver.read(player.outputs.address, player.count * ITEM)
    _hand_in(player)


def _late(player: BorderPlayer) -> None:
    """Say "done", and write the outputs while the referee seals them."""
    player.answer()
    _honest(player)


def _moved(player: BorderPlayer) -> None:
    """Map other memory where the outputs are."""
    player.driver.unmap(player.outputs)
    player.outputs, descriptor = player.driver.share(player.outputs.size)
    os.close(descriptor)
    _honest(player)


def _kept(player: BorderPlayer) -> None:
    """Read the inputs from where an earlier player had its own."""
    assert player.kept
    player.launch(player.spin, player.stream, source=player.kept.address, ns=0)
    player.synchronize()


def _killed(_: BorderPlayer) -> None:
    os._exit(1)


KINDS: dict[str, tuple[Callable[[BorderPlayer], None], Callable[[BorderPlayer], None]]] = {
    "idle": (_nothing, _nothing),
    "honest": (_nothing, _honest),
    "queued": (_queue, _wait),
    "second mapping": (_nothing, _honest),
    "early poller": (_poll, _wait),
    "unfinished": (_nothing, _unfinished),
    "gate opened": (_open, _wait),
    "guess": (_guess, _hand_in),
    "stale": (_nothing, _stale),
    "late": (_nothing, _late),
    "swapped": (_nothing, _honest),
    "moved": (_nothing, _moved),
    "kept": (_nothing, _kept),
    "wrong size": (_nothing, _honest),
    "killed": (_nothing, _killed),
}
"""What a player does when it must prepare, and when it must go."""
GATED = ("queued", "gate opened")
"""The kinds whose work waits for the gate, so that they may go before the inputs are there."""


def main() -> None:
    kind, library = sys.argv[1:]
    referee = socket.socket(fileno=0)
    player: BorderPlayer | None = None
    while True:
        packet, descriptors, _, _ = socket.recv_fds(referee, 1 << 16, 2)
        if not packet:
            return
        try:
            player = player or BorderPlayer(kind, library, referee)
            answer = player.obey(json.loads(packet), descriptors)
        except (DriverError, OSError) as error:
            answer = {"is": "failed", "why": str(error)}
        if "times" in answer or not (player and player.has_answered):
            with contextlib.suppress(BrokenPipeError):
                referee.send(json.dumps(answer).encode())
        if player:
            player.has_answered = False


if __name__ == "__main__":
    main()
