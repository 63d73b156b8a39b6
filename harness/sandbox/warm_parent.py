"""The handle on the warm parent, the process that forks players: it has imported torch and runs in the outer sandbox.

It runs `harness/inside/zygote.py`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from harness.inside import zygote
from harness.processes import freezer
from harness.records.errors import JudgeError
from harness.records.verdict import Foul, Verdict
from harness.sandbox.health import Health
from harness.sandbox.packets import receive_signed, socket_pair

_START_S = 60.0
"""How long the import of torch may take."""
_SEAL_S = 600.0
"""How long it may take to seal a cache: a build may leave a hundred thousand files, each with holes."""


class WarmParent:
    """One warm parent, from start to end."""

    def __init__(self, stage: Path, *, sandboxed: bool, cores: Collection[int]) -> None:
        self._stage = stage
        self._sandboxed = sandboxed
        self._cores = cores
        self._cleanup = contextlib.ExitStack()
        self._health: Health | None = None
        self.spinners: tuple[int, ...] = ()
        """The pids of the processes that keep the players' cores awake; empty until `keep_awake`."""

    def start(self, command: Callable[[int], list[str]], environment: Mapping[str, str]) -> None:
        """Start `command(descriptor)`, which reads its orders from that descriptor."""
        self._orders, theirs = socket_pair()
        self._cleanup.callback(self._orders.close)
        self._errors = self._cleanup.enter_context(tempfile.TemporaryFile())
        with theirs:
            self.process = subprocess.Popen(
                command(theirs.fileno()),
                stdin=subprocess.DEVNULL,
                stdout=self._errors,
                stderr=self._errors,
                env=dict(environment),
                cwd="/",
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self._cleanup.callback(self._kill)

    def end(self) -> None:
        """Kill it and all processes that it started."""
        self._cleanup.close()

    def _kill(self) -> None:
        family = list(freezer.descendants(self.process.pid))
        for pid in (*family, self.process.pid):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                # Let it run on any core: on a busy core, a spinner gets too little time to exit.
                os.sched_setaffinity(pid, self._cores)
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        if not self.is_spent:
            freezer.await_end(family)

    @property
    def is_warm(self) -> bool:
        return self._health is not None

    @property
    def is_spent(self) -> bool:
        """Whether a killed player of this warm parent does not end."""
        return self._health is not None and self._health.is_spent

    def await_warmth(self) -> Health:
        """Wait until it has imported torch.  Raises JudgeError if it does not start."""
        if self._health:
            return self._health
        self._orders.settimeout(_START_S)
        try:
            warm, pid = receive_signed(self._orders)
        except TimeoutError:
            warm, pid = b"", 0
        if warm != b"warm":
            raise JudgeError(f"the player's warm parent did not start: {self._last_error()}")
        self._health = Health(self.process.pid, pid, self._stage, sandboxed=self._sandboxed)
        return self._health

    def fork_player(self, cache: str, control: socket.socket, *descriptors: int) -> None:
        """Have it fork a player.  The descriptors are its `PlayerSetup`, its log, and optionally its results pipe."""
        order, give_up = zygote.PLAYER + cache.encode(), time.monotonic() + _START_S
        while True:
            try:
                socket.send_fds(self._orders, [order], [control.fileno(), *descriptors])
                return
            except OSError as error:
                # A judge that is not root shares a limit with its players: how many files are under way between
                # sockets.  The kernel takes a moment to find those that an ended player left.
                if error.errno != errno.ETOOMANYREFS or time.monotonic() > give_up:
                    raise self._ended(error) from None
            time.sleep(0.001)

    def keep_awake(self) -> None:
        """Keep the players' cores from halting, from now on."""
        health = self.await_warmth()
        if self.spinners:
            return
        health.check()
        self._order(zygote.KEEP_AWAKE, _START_S)
        self.spinners = tuple(health.include_processes())

    def rest(self) -> None:
        """Stop the spinners while no judging uses this sandbox."""
        self._signal_spinners(signal.SIGSTOP)

    def wake(self) -> None:
        """Let the spinners run again, for the next judging."""
        self._signal_spinners(signal.SIGCONT)

    def _signal_spinners(self, number: signal.Signals) -> None:
        for spinner in self.spinners:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(spinner, number)

    def seal(self, cache: str) -> None:
        """Have it make a cache read-only, after its build.  Raises Foul if one of its files is still open."""
        if self._sandboxed and self._order(zygote.SEAL + cache.encode(), _SEAL_S) == zygote.KEPT_OPEN:
            raise Foul(Verdict.RUN_TIME_ERROR, "A file of the cache is still open after the build has ended.")

    def _order(self, order: bytes, seconds: float) -> bytes:
        self._orders.settimeout(seconds)
        try:
            self._orders.send(order)
            answer = self._orders.recv(64)
        except OSError as error:
            raise self._ended(error) from None
        if not answer:
            raise self._ended("no answer")
        return answer

    def _ended(self, why: object) -> JudgeError:
        return JudgeError(f"the player's warm parent has ended ({why}): {self._last_error()}")

    def _last_error(self) -> str:
        self._errors.seek(0)
        text = self._errors.read().decode(errors="replace").strip()
        return text.splitlines()[-1] if text else "no reason given"
