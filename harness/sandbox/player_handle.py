"""The referee's handle on a player: send orders, receive answers, stop, resume and finally kill the player.

The player itself runs `harness/inside/player.py`.  The two exchange only packets, and the kernel vouches for each
packet's sender.
"""

from __future__ import annotations

import contextlib
import functools
import json
import math
import os
import select
import signal
import socket
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from harness.gpu.gpu_errors import explain_abort
from harness.inside.inner_sandbox import PlayerSetup
from harness.inside.protocol import (
    LOG_BYTES,
    LOG_HEADER,
    MAX_MESSAGE,
    Answer,
    Failed,
    ProtocolError,
    Ready,
    TooComplex,
    read_answer,
    write,
)
from harness.processes import freezer
from harness.processes.memory import Memory, memory_of
from harness.processes.starvation import LostTime
from harness.records.errors import JudgeError, MemoryShortage
from harness.records.verdict import Foul, Verdict
from harness.sandbox.confinement import Confinement
from harness.sandbox.packets import receive_signed, socket_pair
from harness.sandbox.warm_parent import WarmParent

_START_S = 60.0
"""How long the sandbox of one player may take to start, on cores where the kernel may still free what another held."""
_WATCH_S = 0.02
"""How often to check memory while a player runs."""
_SPIN_S = 0.1
"""How long a referee with a core of its own polls for a message without sleeping.  After that it sleeps, so that other
judges can use the core: the time to wake up is short compared with such a wait."""
_STARVING_S = 0.1
"""After this long, the referee measures how long other programs keep the player from running."""
_LAST_WORDS_S = 1.0
"""How long a keeper may take to read a player's last output and to report how the player ended."""


class PlayerHandle:
    """The referee's handle on one player and all processes that it starts."""

    def __init__(self, warm_parent: WarmParent, setup: PlayerSetup, confinement: Confinement) -> None:
        self._confinement = confinement
        self._control, theirs = socket_pair()
        self._arrivals = select.poll()
        self._arrivals.register(self._control, select.POLLIN)
        self._packet = memoryview(bytearray(MAX_MESSAGE + 1))  # one byte more, to detect longer packets
        self._log = os.memfd_create("log")
        self._freezer: freezer.Freezer | None = None
        self._memory = Memory(())
        self._keeper = 0
        self.pid = 0
        self._pidfd: int | None = None
        self._last_words: str | None = None
        self._lost: LostTime | None = None
        self._cache = setup.cache
        self._health = warm_parent.await_warmth()
        self._unowned_before: int | None = None
        self._owner: int | None = None
        """The user that may read the process's memory."""
        self.extra_s = 0.0
        """Seconds that the judge spent to measure its memory and to end it, which takes long with many processes."""
        self.slept_s = 0.0
        """Seconds for which the referee slept in long waits for it."""
        self.results: int | None
        """The pipe from which to read a program's results."""
        self.results, told = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK) if setup.program else (None, None)
        setup_fd = os.memfd_create("setup")
        try:
            os.write(setup_fd, json.dumps(asdict(setup)).encode())
            if told is not None:
                os.set_blocking(told, True)  # a program may write faster than it is read
            warm_parent.fork_player(setup.cache, theirs, setup_fd, self._log, *([] if told is None else [told]))
        except BaseException:
            self._close()
            raise
        finally:
            os.close(setup_fd)
            theirs.close()
            if told is not None:
                os.close(told)

    def _close(self) -> None:
        self._last_words = self.log
        self._control.close()
        for descriptor in (self._log, self._pidfd, self.results):
            if descriptor is not None:
                os.close(descriptor)

    def await_ready(self) -> None:
        """Wait until keeper and player have started, and prepare to stop the player and watch its memory."""
        self._keeper = self._await_ready()
        self.pid = self._await_ready()
        self._control.setblocking(False)
        try:
            self._pidfd = os.pidfd_open(self.pid)
            confinement = self._confinement
            find_cached_bytes = functools.partial(self._health.cached_bytes, self._cache)
            limits = confinement.limits_beside(find_cached_bytes())
            self._freezer = confinement.freezer_for(self._keeper, self.pid, limits)
            self._lost = LostTime(confinement.cores, self._keeper, self._freezer, confinement.yielding)
            self._memory = memory_of(
                self.pid,
                self._freezer,
                limits.memory_bytes,
                confinement.cards,
                confinement.gpu_memory_bytes,
                find_cached_bytes,
            )
            self._unowned_before = self._health.unowned(self._cache)
            self._owner = self._find_owner()
        except OSError as error:
            raise JudgeError(f"the judge cannot stop or watch a player that has just started: {error}") from None

    def _find_owner(self) -> int:
        return os.stat(f"/proc/{self.pid}/mem").st_uid

    @property
    def hides_its_memory(self) -> bool:
        """Whether the process has executed a file that it may not read: then the referee cannot read its memory."""
        try:
            return self._find_owner() != self._owner
        except OSError:  # it has ended
            return False

    def _await_ready(self) -> int:
        self._control.settimeout(_START_S)
        try:
            packet, sender = receive_signed(self._control)
            answer = read_answer(packet)
        except (TimeoutError, ProtocolError, OSError) as error:
            raise JudgeError(f"a player did not start: {error}") from None
        if not isinstance(answer, Ready):
            why = f"{answer.error}: {answer.message}" if isinstance(answer, Failed) else "it did not say Ready"
            raise JudgeError(f"a player did not start: {why}")
        return sender

    def follow(self, ends: float, late: str) -> None:
        """Wait for the process that a profiler starts, and treat it as the player from now on.

        Raises:
            Foul: the profiler ended without starting one, or took too long.
        """
        while not self._arrivals.poll(_WATCH_S * 1000):
            self.check_memory()
            if time.monotonic() > ends:
                raise Foul(Verdict.TIME_LIMIT_EXCEEDED, late)
        try:
            packet, sender = receive_signed(self._control)
        except OSError:
            raise self.died() from None
        if not packet or not isinstance(self.read(packet), Ready):
            raise self.died()
        self.pid = sender

    def hang_up(self) -> None:
        """Close our side of the connection, so that the player exits like any program."""
        with contextlib.suppress(OSError):  # it already has exited
            self._control.shutdown(socket.SHUT_WR)

    def send(self, message: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
        try:
            if descriptors:
                socket.send_fds(self._control, [write(message)], descriptors)
            else:
                self._control.send(write(message))
        except BlockingIOError:
            raise Foul(Verdict.RUN_TIME_ERROR, "The process does not read the referee's messages.") from None
        except OSError:
            raise self.died() from None

    def answer(self, deadline: float, late: str) -> Answer:
        """The player's next answer: `receive`, then `read`."""
        return self.read(self.receive(deadline, late))

    def has_message(self, seconds: float) -> bool:
        """Whether a message arrives within this time, or the player ends."""
        return bool(self._arrivals.poll(seconds * 1000))

    def receive(self, deadline: float, late: str) -> bytes:
        """The player's next packet.

        Args:
            deadline: in `time.monotonic()`; extended by the time for which other programs keep the player from running.
            late: the message if it passes.

        Raises:
            Foul: the player ended, took too long, or used too much memory.
            JudgeError: other programs keep it from running.
        """
        receive_into, packet = self._control.recv_into, self._packet
        now = time.monotonic()
        next_look, starves_at, spins_until, ends = now + _WATCH_S, now + _STARVING_S, now + _SPIN_S, deadline
        while True:
            try:
                if length := receive_into(packet):
                    return bytes(packet[:length])
                raise self.died()
            except BlockingIOError:
                pass
            except OSError:
                raise self.died() from None
            if (now := time.monotonic()) > next_look:
                self.check_memory()
                next_look = now + _WATCH_S
            if now > starves_at:
                self.begin_wait()
                starves_at = math.inf
            if now > ends:
                ends = self.extended(deadline, late)
            if now > spins_until or not self._confinement.has_core_of_its_own:
                self._arrivals.poll(_WATCH_S * 1000)
                self.slept_s += time.monotonic() - now

    def begin_wait(self) -> None:
        """Measure from now on how long other programs keep the player from running."""
        assert self._lost
        self._lost.begin()

    def extended(self, deadline: float, late: str) -> float:
        """A deadline that has passed, extended by the time that other programs took from the player in this wait.

        Raises:
            Foul: it has passed nevertheless.
            JudgeError: other programs keep the player from running.
        """
        assert self._lost
        lost_s = self._lost.measure()
        if time.monotonic() > deadline + lost_s:
            self._lost.end(lost_s)
            raise Foul(Verdict.TIME_LIMIT_EXCEEDED, late)
        return deadline + lost_s

    @property
    def starved_s(self) -> float:
        """Seconds for which other programs kept it from running, in waits of more than `_STARVING_S`."""
        return self._lost.seconds if self._lost else 0.0

    def read(self, packet: bytes) -> Answer:
        """Parse a packet from the player.  Raises Foul if an honest player never sends such a packet."""
        try:
            return read_answer(packet)
        except ProtocolError as error:
            raise Foul(Verdict.SECURITY_VIOLATION, f"The process forged a message to the referee: {error}.") from None
        except TooComplex as error:
            raise Foul(Verdict.WRONG_ANSWER, f"The output {error}.") from None

    def refuse_early_messages(self) -> None:
        """Call this while the player is stopped.  Raises Foul if an unrequested message is waiting."""
        if self._arrivals.poll(0):
            if self._control.recv_into(self._packet):
                raise Foul(Verdict.SECURITY_VIOLATION, "The process answered the referee without being asked.")
            raise self.died()

    def stop(self) -> None:
        """Stop all processes of the player.

        Raises:
            Foul: they did not stop, and other programs did not keep them from doing so.
            JudgeError: this machine can't stop processes, or is too busy.
        """
        assert self._freezer and self._lost
        known_s: float | None = None
        while True:
            began = time.monotonic()
            try:
                self._freezer.stop(self._memory.check_machine)
                break
            except Foul as foul:
                # A player needs a core in order to stop.  The first try does not show which program had the core.
                is_kept = known_s is None or self._lost.measure() - known_s > (time.monotonic() - began) / 2
                if foul.verdict is Verdict.MEMORY_LIMIT_EXCEEDED or not is_kept:
                    raise
            self._lost.begin()
            known_s = self._lost.measure()
        self._lost.end()

    def resume(self) -> None:
        assert self._freezer
        self._freezer.resume()

    def check_memory(self, *, now: bool = False) -> None:
        """Raises Foul if the player uses more than it may; with `now`, looks even if it has just looked."""
        began = time.monotonic()
        try:
            self._memory.check(now=now)
        finally:
            self.extra_s += time.monotonic() - began

    def suspect(self, shortage: MemoryShortage) -> Foul | MemoryShortage:
        """The error for a shortage beside the player.  If the player is blamed, its end must prove it."""
        return self._memory.suspect(shortage)

    def died(self) -> Foul:
        """Why the process ended by itself, as its keeper reports it."""
        give_up = time.monotonic() + _LAST_WORDS_S
        is_gone = False
        while not is_gone and time.monotonic() < give_up:
            is_gone = self.is_gone  # first, because the keeper reports the status before it ends
            if (status := self.find_status()) is not None:
                return Foul(Verdict.RUN_TIME_ERROR, how_it_ended(status, self.log))
            self._memory.check()
            time.sleep(0.001)
        return Foul(Verdict.RUN_TIME_ERROR, "The process closed its connection or sent the referee an empty message.")

    def find_status(self) -> int | None:
        """The wait status if the process ended by itself, as its keeper reports it.  Raises like `check_memory`."""
        ended, status, _ = self._log_header()
        if not ended:
            return None
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
            self._memory.check_kill()
        return int(status)

    @property
    def is_gone(self) -> bool:
        """Whether even its keeper has ended."""
        return freezer.has_ended(self._keeper)

    def find_start_failure(self) -> str:
        """Why a program's command could not be executed; "" if it was.  Only then is a message waiting."""
        with contextlib.suppress(BlockingIOError, ConnectionError):
            answer = read_answer(self._control.recv(MAX_MESSAGE) or b'{"is":"loaded"}')
            if isinstance(answer, Failed):
                return answer.message
        return ""

    def _log_header(self) -> tuple[int, int, int]:
        """Whether the player has ended, by itself or killed; its wait status; how many bytes it printed."""
        ended, status, printed = LOG_HEADER.unpack(os.pread(self._log, LOG_HEADER.size, 0) or bytes(LOG_HEADER.size))
        return int(ended), int(status), int(printed)

    @property
    def log(self) -> str:
        """The end of the player's output.  Before `close`, only what its keeper has read so far.  Hostile text."""
        if self._last_words is not None:
            return self._last_words
        printed = self._log_header()[2]
        kept = min(printed, LOG_BYTES)
        text = os.pread(self._log, kept, LOG_HEADER.size).decode(errors="replace")
        return text if printed == kept else f"[the last {kept} of {printed} bytes]\n{text}"

    def close(self, *, checked: bool = True) -> None:
        """Kill all processes of the player, and wait until they are gone.

        Raises:
            Foul: they do not end, because of what the player did.  The sandbox is then spent (`Health`).
            JudgeError: processes are left, or with `checked`, the player changed the machine (`Health`).
        """
        began = time.monotonic()
        with contextlib.ExitStack() as cleanup:
            cleanup.callback(self._close)
            cleanup.callback(self._memory.close)
            self._end()
            # Unread messages may hold files, and these hold memory.
            self._control.close()
            self._memory.settle()
            if self._unowned_before is not None:
                self._health.await_unowned(self._cache, self._unowned_before)
            self.extra_s += time.monotonic() - began
            if checked:
                self._health.check()

    def _end(self) -> None:
        with contextlib.ExitStack() as cleanup:
            if self._freezer:
                cleanup.push(self._close_freezer)
            if self._keeper:
                cleanup.callback(self._kill)
            cleanup.callback(self._memory.expect_end)  # the first to run: if it raises, the player is still killed

    def _close_freezer(self, kind: type[BaseException] | None, *_: object) -> None:
        assert self._freezer
        self._freezer.close(ended=kind is None)

    def _kill(self) -> None:
        self._kill_player()
        # A sandboxed keeper is the first process of its pid namespace: it ends after all others in it.
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._keeper, signal.SIGKILL)
        if not self._confinement.is_sandboxed:
            self._health.kill_strays()
            # The kernel's lists of children may miss a process while they change; a cgroup's list does not.
            for pid in self._freezer.processes() if self._freezer else ():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        try:
            freezer.await_players_end(self._keeper)
        except (Foul, JudgeError):
            self._health.is_spent = True
            raise

    def _kill_player(self) -> None:
        """Kill the player before its keeper, which can then still read the last output."""
        if self._pidfd is None:
            return
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        give_up = time.monotonic() + _LAST_WORDS_S
        while not self._log_header()[0] and not self.is_gone and time.monotonic() < give_up:
            time.sleep(0.0001)


def how_it_ended(status: int, log: str) -> str:
    """A sentence about a wait status; `log` is the process's output."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        with contextlib.suppress(ValueError):
            name = signal.Signals(number).name
            crashed = f"The process crashed: {name} ({(signal.strsignal(number) or '').lower()})."
            return f"{crashed} {explain_abort(log)}".rstrip()
        return f"The process was killed by signal {number}."
    return f"The process ended with exit code {os.waitstatus_to_exitcode(status)} before it answered."
