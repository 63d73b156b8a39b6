"""Stop all processes of a player, so that none of it runs until the referee resumes it.

Two ways, tried in this order:

    freezer   the cgroup v2 freezer: the kernel stops every process in the group and reports when it is done.
              The player can't undo it.  Needs a cgroup that we may write to.
    signals   SIGSTOP to every process below the keeper, until two listings are equal and all processes are stopped.
              `seccomp` refuses sending SIGCONT, and every call that could make the kernel send it.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Protocol

from harness.processes import cgroup
from harness.records.errors import JudgeError
from harness.records.verdict import Foul, Verdict

_PATIENCE_S = 10.0
"""How long all processes may take to stop: usually microseconds, but seconds in a system call that moves gigabytes."""
TEARDOWN_S = 600.0
"""How long killed processes may take to end: the kernel frees gigabytes and reaps hundreds of processes.

A player can make its own end as slow as its start was, and a start may take minutes.  With less patience, its verdict
would become a judging error."""
_WORK_S = 30.0
"""If ending a player takes the kernel more CPU time, the player is to blame.  A gigabyte takes a third of a second."""
_LOOK_AT_WORK_S = 0.5
"""How often to look which killed processes still use CPU time."""
_LOOK_S = 0.0001
"""How long a referee that shares its core with the player sleeps between two looks."""
_MEANWHILE_S = 0.02
"""How often to look after other things while a player is being stopped."""
_LISTING_BYTES = 1 << 16
TICK_S = 1 / os.sysconf("SC_CLK_TCK")


class Freezer(Protocol):
    """Stops and resumes one player."""

    is_stopped: bool
    """Whether it was stopped, or is being stopped, and not resumed since."""

    def stop(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Return when every process of the player has stopped.

        Args:
            meanwhile: called now and then while it waits; may raise Foul.

        Raises:
            Foul: the player's processes did not stop in time.
            JudgeError: this machine can't stop processes.
        """

    def resume(self) -> None: ...

    def processes(self) -> list[int]:
        """The pids of all living processes of the player."""

    def find_cpu_s(self) -> tuple[float, float] | None:
        """CPU seconds of the player's processes, without and with the kernel's; None if nothing counts ended ones."""

    def close(self, *, ended: bool = True) -> None:
        """Clean up after the player was killed.

        Raises:
            JudgeError: processes of it are left, although it has `ended`.
        """


class CgroupFreezer:
    """Freezes a player in its own cgroup below `parent`, with those of the `limits` that the cgroup supports.

    If referee and player share a core, `stop` sleeps between two looks: a player has to run to be frozen.
    """

    def __init__(
        self, parent: Path, pid: int, limits: cgroup.CgroupLimits | None = None, *, shares_core: bool = False
    ) -> None:
        self._shares_core = shares_core
        self.is_stopped = False
        # Players see the name.  Pids and times would tell them apart by the order of play.
        self.folder = parent / f"player-{secrets.token_hex(8)}"
        self.folder.mkdir()
        self.limits_memory = limits is not None and cgroup.set_limits(self.folder, limits)
        (self.folder / "cgroup.procs").write_text(str(pid))
        self._freeze = os.open(self.folder / "cgroup.freeze", os.O_WRONLY)
        self._events = os.open(self.folder / "cgroup.events", os.O_RDONLY)
        self._processes = os.open(self.folder / "cgroup.procs", os.O_RDONLY)

    def stop(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        os.pwrite(self._freeze, b"1", 0)
        self.is_stopped = True
        patience = _Stopping(meanwhile)
        while b"frozen 1" not in os.pread(self._events, 256, 0):
            patience.wait_on()
            if self._shares_core:
                time.sleep(_LOOK_S)

    def resume(self) -> None:
        os.pwrite(self._freeze, b"0", 0)
        self.is_stopped = False

    def processes(self) -> list[int]:
        # The kernel returns at most a page at a time, which holds 512 pids of seven digits.
        listing = b""
        while chunk := os.pread(self._processes, _LISTING_BYTES, len(listing)):
            listing += chunk
        return [int(pid) for pid in listing.split()]

    def find_cpu_s(self) -> tuple[float, float] | None:
        text = (self.folder / "cpu.stat").read_bytes()
        return cgroup.count_events(text, "user_usec") / 1e6, cgroup.count_events(text, "usage_usec") / 1e6

    def close(self, *, ended: bool = True) -> None:
        for descriptor in (self._freeze, self._events, self._processes):
            os.close(descriptor)
        if ended:
            cgroup.remove(self.folder)


class SignalFreezer:
    """Sends SIGSTOP and SIGCONT to all processes below the keeper."""

    def __init__(self, keeper: int, player: int) -> None:
        self.keeper = keeper
        self.player = player
        self.stopped: frozenset[int] = frozenset()
        self.is_stopped = False

    def stop(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        self.is_stopped = True
        patience = _Stopping(meanwhile)
        before: dict[int, bool] = {}
        while True:
            now = {pid: _is_stopped(pid) for pid in descendants(self.keeper)}
            if self.player not in now and not has_ended(self.player):
                raise JudgeError("this kernel does not list a process's children, so signals can't stop players")
            # Two equal listings, all stopped: a process that ends between them can make the kernel resume its group,
            # and a process missing from one listing could still start another.
            if now == before and all(now.values()):
                self.stopped = frozenset(now)
                return
            for pid, is_stopped in now.items():
                if not is_stopped:
                    _signal(pid, signal.SIGSTOP)
            before = now
            patience.wait_on()

    def resume(self) -> None:
        stopped, self.stopped, self.is_stopped = self.stopped, frozenset(), False
        for pid in stopped:
            _signal(pid, signal.SIGCONT)

    def processes(self) -> list[int]:
        return [*(self.stopped or descendants(self.keeper))]

    def find_cpu_s(self) -> tuple[float, float] | None:
        return None

    def close(self, *, ended: bool = True) -> None:
        pass


class _Stopping:
    """How long a player may take to stop.  Until then it may be in system calls that take memory."""

    def __init__(self, meanwhile: Callable[[], None]) -> None:
        self._meanwhile = meanwhile
        began = time.monotonic()
        self._give_up, self._next = began + _PATIENCE_S, began + _MEANWHILE_S

    def wait_on(self) -> None:
        """Raises Foul if it took too long."""
        if (now := time.monotonic()) < self._next:
            return
        self._meanwhile()
        self._next = now + _MEANWHILE_S
        if now > self._give_up:
            message = f"The submission's processes did not stop within {_PATIENCE_S:.0f} s."
            raise Foul(Verdict.RUN_TIME_ERROR, message)


def find_cgroup() -> cgroup.Cgroup | None:
    """Create a cgroup in which players can be frozen; None if this machine allows none.  The caller removes it."""
    with contextlib.suppress(OSError):
        for base in cgroup.find_bases():
            with contextlib.suppress(OSError):
                group = cgroup.Cgroup(base)
                if _can_freeze(group.folder):
                    cgroup.remove_abandoned(base)
                    return group
                group.remove()
    return None


def _can_freeze(folder: Path) -> bool:
    """Try it on a process of our own: moving a process also needs rights on the cgroup that it comes from."""
    sleep = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(60)"]
    with contextlib.ExitStack() as cleanup:
        sleeper = subprocess.Popen(sleep, stdin=subprocess.DEVNULL)
        try:
            freezer = CgroupFreezer(folder, sleeper.pid)
            cleanup.callback(freezer.close)
            freezer.stop()
            freezer.resume()
        except (OSError, Foul):
            return False
        finally:
            sleeper.kill()
            sleeper.wait()
        return True


def descendants(pid: int) -> Iterator[int]:
    """The pids of all processes below `pid`, as numbered in this namespace.

    Not recursive: a player may start a chain of processes that is longer than Python's stack.
    """
    waiting = children(pid)
    while waiting:
        yield (child := waiting.pop())
        waiting += children(child)


def children(pid: int) -> list[int]:
    """The pids of the children of all threads of a process; empty if it has ended."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                found += map(int, file.read().split())
    return found


def await_end(pids: Collection[int], patience_s: float = TEARDOWN_S) -> None:
    """Wait until killed processes, which need not be our children, have ended.

    Raises:
        JudgeError: they have not ended after `patience_s` seconds.
    """
    give_up = time.monotonic() + patience_s
    while alive := [pid for pid in pids if not has_ended(pid)]:
        if time.monotonic() > give_up:
            raise JudgeError(f"killed, but still running after {patience_s:g} s: {listed(alive)}")
        time.sleep(0.0005)


def await_players_end(keeper: int) -> None:
    """Wait until a killed keeper has ended, and so every process of its player.

    Raises:
        Foul: they have not ended after `TEARDOWN_S` seconds, because the kernel is still busy ending them.
        JudgeError: they have not ended, and nothing shows that it is the player's doing.
    """
    began, work = time.monotonic(), _TeardownWork()
    while not has_ended(keeper):
        waited_s = time.monotonic() - began
        if waited_s > TEARDOWN_S:
            raise _endless(keeper, work.seconds)
        if waited_s > work.next_look_s:
            work.look([keeper, *descendants(keeper)])
            work.next_look_s = waited_s + _LOOK_AT_WORK_S
        time.sleep(0.0005)


class _TeardownWork:
    """The CPU time that killed processes use: only the kernel's work to end them, as they run no code of their own."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.next_look_s = _LOOK_AT_WORK_S
        self._last: dict[int, float] = {}

    def look(self, pids: Collection[int]) -> None:
        for pid in pids:
            now = sum(cpu_times(pid)[:2])
            self.seconds += max(0.0, now - self._last.get(pid, now))
            self._last[pid] = now


def cpu_times(pid: int) -> tuple[float, float, float, float]:
    """CPU seconds of a process: in programs and in the kernel, then the same of its ended children; 0 if it ended."""
    try:
        user, system, childrens_user, childrens_system = map(int, stat_fields(pid)[11:15])
    except OSError:
        return 0.0, 0.0, 0.0, 0.0
    return user * TICK_S, system * TICK_S, childrens_user * TICK_S, childrens_system * TICK_S


def stat_fields(pid: int) -> list[bytes]:
    """The fields of /proc/PID/stat after the process's name.  Raises OSError: it has ended."""
    # The player chooses the name in parentheses, which may itself contain parentheses.
    return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()


def _endless(keeper: int, work_s: float) -> Foul | JudgeError:
    if work_s > _WORK_S:
        why = f"the kernel took more than {TEARDOWN_S:.0f} s to end its processes and to free what they held"
        return Foul(Verdict.RUN_TIME_ERROR, f"The submission was killed, and {why}.")
    return JudgeError(f"killed, but still running after {TEARDOWN_S:g} s: {listed([keeper, *descendants(keeper)])}")


def listed(pids: Collection[int]) -> str:
    """For messages: `process 12, 13`, at most ten pids."""
    return "process " + ", ".join(map(str, sorted(pids)[:10])) + (" and more" if len(pids) > 10 else "")


def has_ended(pid: int) -> bool:
    """Whether a process is gone, or a zombie that its parent has not reaped yet."""
    if _state(f"/proc/{pid}/stat") not in "ZX":
        return False
    try:
        return all(state in "ZX" for state in _states(pid))  # the first thread may end before the others
    except OSError:
        return True


def _is_stopped(pid: int) -> bool:
    """Whether every thread is stopped, or the process is a zombie."""
    try:
        return all(state in "TtZ" for state in _states(pid))
    except OSError:
        return False  # it ended after the listing: the caller lists again


def _states(pid: int) -> Iterator[str]:
    """The states of all threads of a process.  Raises OSError: it has ended."""
    return (_state(f"/proc/{pid}/task/{thread}/stat") for thread in os.listdir(f"/proc/{pid}/task"))


def _state(path: str) -> str:
    try:
        with open(path, "rb", buffering=0) as file:
            stat = file.read(256)
        # The player chooses the name in parentheses, which may itself contain parentheses.
        return chr(stat[stat.rindex(b")") + 2])
    except (OSError, ValueError):
        return "X"


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
