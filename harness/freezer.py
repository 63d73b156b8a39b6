"""Stop a player with all its processes, so that nothing of it runs until the referee lets it.

Two ways, tried in this order:

    freezer   the cgroup v2 freezer: the kernel stops every process in the group, and says when it has.
              Nothing inside can undo it.  Needs a cgroup that we may write to.
    signals   SIGSTOP to every process below the keeper, until two full listings show the same, all stopped.
              `seccomp` refuses to send SIGCONT, and what could make the kernel send it.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from harness.errors import JudgeError
from harness.verdict import Foul, Verdict

_PATIENCE_S = 5.0
"""How long all processes may take to stop; microseconds are usual, milliseconds happen on a busy machine."""


class Freezer(Protocol):
    """Stops and resumes one player."""

    def stop(self) -> None:
        """Return when every process of the player has stopped.

        Raises:
            Foul: its processes do not let themselves be stopped.
            JudgeError: this machine can't stop them.
        """

    def resume(self) -> None: ...

    def kill(self) -> None: ...

    def close(self) -> None:
        """Forget the player, which has been killed."""


class CgroupFreezer:
    """The freezer of a cgroup of its own, below `parent`."""

    def __init__(self, parent: Path, pid: int) -> None:
        self.folder = parent / f"player-{pid}"
        self.folder.mkdir()
        (self.folder / "cgroup.procs").write_text(str(pid))
        self._freeze = os.open(self.folder / "cgroup.freeze", os.O_WRONLY)
        self._events = os.open(self.folder / "cgroup.events", os.O_RDONLY)

    def stop(self) -> None:
        os.pwrite(self._freeze, b"1", 0)
        give_up = time.monotonic() + _PATIENCE_S
        while b"frozen 1" not in os.pread(self._events, 256, 0):
            if time.monotonic() > give_up:
                raise JudgeError(f"the kernel did not freeze the player within {_PATIENCE_S:.0f} s")

    def resume(self) -> None:
        os.pwrite(self._freeze, b"0", 0)

    def kill(self) -> None:
        with contextlib.suppress(OSError):  # cgroup.kill is of Linux 5.14; the keeper's end does the same
            (self.folder / "cgroup.kill").write_text("1")

    def close(self) -> None:
        os.close(self._freeze)
        os.close(self._events)
        _remove_when_empty(self.folder)


class SignalFreezer:
    """SIGSTOP and SIGCONT to all processes below the keeper."""

    def __init__(self, keeper: int, player: int) -> None:
        self.keeper = keeper
        self.player = player
        self.stopped: frozenset[int] = frozenset()

    def stop(self) -> None:
        give_up = time.monotonic() + _PATIENCE_S
        before: dict[int, bool] = {}
        while True:
            now = {pid: _is_stopped(pid) for pid in descendants(self.keeper)}
            if self.player not in now and not has_ended(self.player):
                raise JudgeError("this kernel does not list a process's children: players can't be stopped by signals")
            # Twice the same, all stopped, and nobody gone between: a process that ends can make the kernel wake those
            # of its group, and one that was not listed could still start another.
            if now == before and all(now.values()):
                self.stopped = frozenset(now)
                return
            for pid, is_stopped in now.items():
                if not is_stopped:
                    _signal(pid, signal.SIGSTOP)
            before = now
            if time.monotonic() > give_up:
                raise Foul(Verdict.RUN_TIME_ERROR, f"Its processes could not be stopped within {_PATIENCE_S:.0f} s.")

    def resume(self) -> None:
        for pid in self.stopped:
            _signal(pid, signal.SIGCONT)

    def kill(self) -> None:
        for pid in descendants(self.keeper):
            _signal(pid, signal.SIGKILL)

    def close(self) -> None:
        pass


def find_cgroup() -> Path | None:
    """A cgroup v2 folder of ours, in which players can be frozen; None where the machine has none.

    The caller removes it with `remove_cgroup`.
    """
    with contextlib.suppress(OSError):
        for base in _own_cgroups():
            folder = base / f"pullrank-{os.getpid()}-{time.monotonic_ns()}"
            folder.mkdir()
            if _can_freeze(folder):
                return folder
            remove_cgroup(folder)
    return None


def remove_cgroup(folder: Path) -> None:
    for player in folder.glob("player-*"):
        _remove_when_empty(player)
    _remove_when_empty(folder)


def _own_cgroups() -> Iterator[Path]:
    own = re.search(r"^0::(/.*)$", Path("/proc/self/cgroup").read_text(), re.MULTILINE)
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields = line.split()
        if own and " - cgroup2 " in line:
            below = os.path.relpath(own[1], fields[3])
            yield Path(fields[4]) / ("" if below.startswith("..") else below)


def _can_freeze(folder: Path) -> bool:
    """Try it on a process of our own: moving it takes rights on the cgroup that it comes from, too."""
    sleep = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(60)"]
    with contextlib.ExitStack() as cleanup:
        sleeper = subprocess.Popen(sleep, stdin=subprocess.DEVNULL)
        cleanup.callback(_remove_when_empty, folder / f"player-{sleeper.pid}")
        try:
            freezer = CgroupFreezer(folder, sleeper.pid)
            cleanup.callback(freezer.close)
            freezer.stop()
            freezer.resume()
        except (OSError, JudgeError):
            return False
        finally:
            sleeper.kill()
            sleeper.wait()
        return True


def _remove_when_empty(folder: Path) -> None:
    """A cgroup can be removed only a moment after its last process was killed."""
    give_up = time.monotonic() + _PATIENCE_S
    while folder.exists() and time.monotonic() < give_up:
        try:
            folder.rmdir()
        except OSError:
            time.sleep(0.002)


def descendants(pid: int) -> Iterator[int]:
    """All processes below `pid`, as this namespace numbers them."""
    for child in children(pid):
        yield child
        yield from descendants(child)


def children(pid: int) -> list[int]:
    """The children of all threads of a process; none if it has ended."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                found += map(int, file.read().split())
    return found


def has_ended(pid: int) -> bool:
    """Whether a process is gone, or a zombie that nobody has reaped yet."""
    return _state(f"/proc/{pid}/stat") in "ZX"


def _is_stopped(pid: int) -> bool:
    """Whether every thread is stopped, or the process is a zombie."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return False  # it ended between listing and looking: look again
    return all(_state(f"/proc/{pid}/task/{thread}/stat") in "TtZ" for thread in threads)


def _state(path: str) -> str:
    try:
        with open(path, "rb", buffering=0) as file:
            stat = file.read(256)
        # The name in brackets is the player's to choose, and may contain brackets.
        return chr(stat[stat.rindex(b")") + 2])
    except (OSError, ValueError):
        return "X"


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
