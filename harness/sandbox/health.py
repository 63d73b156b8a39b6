"""Check that the machine is in the same state as before the first player.

There is a short check after every player and a thorough one after the last.  A change is an error of the judge, because
the sandbox should have prevented it, and the judging is void.  Only the group's priority is the player's fault: where
/proc is writable, as with a GPU, the sandbox cannot prevent that.

    processes   the sandbox has only the processes that it started with; no other process is in its user namespace
    limits      those of the referee and the warm parent; the cores that the referee may use; the class, priority and
                group by which the kernel schedules the warm parent and its players
    files       the files shown to players, and the caches that their builds filled
    memory      memory that belongs to no process has not grown
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from harness.inside import inner_sandbox
from harness.processes.freezer import TEARDOWN_S, descendants, has_ended, listed
from harness.processes.watched_memory import MACHINE_BYTES, Meminfo
from harness.records.errors import JudgeError
from harness.records.verdict import Foul, Verdict

_GRACE_S = 5.0
"""How long processes that were killed with a player may take to end."""
_RETURN_S = 60.0
"""How long the kernel may take to free the memory of the last player.  A player can make this take long, because the
kernel frees files in transit between two sockets only later."""
_FREED_LATER_S = 0.5
"""How long to wait for more of an ended player's memory to be freed; the kernel frees five gigabytes a second."""
_LITTLE_BYTES = 16 << 20
_MAX_FILES = 2_000
"""How many files of a folder to check: a build may leave a hundred thousand, in folders nested by the thousand."""
_GROWTH = 0.1
"""The share of the machine's memory by which other programs may have grown meanwhile."""


class Health:
    """Remembers a sandbox's state before its first player, and checks that it has not changed.

    `root` is the pid of its outermost process, `warm_parent` that of the process that forks players, both as numbered
    in our namespace.
    """

    def __init__(self, root: int, warm_parent: int, stage: Path, *, sandboxed: bool) -> None:
        self._root = root
        self._warm_parent = warm_parent
        self._sandboxed = sandboxed
        self._stage = stage
        # Without a sandbox, players write to the other folders.
        self._shown = [stage / "player", *([stage / "tools"] if sandboxed else [])]
        self._caches = Path(f"/proc/{warm_parent}/root{inner_sandbox.CACHES}")
        self._seals: dict[str, object] = {}
        self.is_spent = False
        """Whether a killed player does not end.  The sandbox then starts no other, and can no longer be checked."""
        self._processes: set[int] = set()
        self.include_processes()
        self._limits = self._read_limits()
        self._group = self._read_group()
        self._files = self._digest_files()
        self._unowned = Meminfo.read().unowned

    def include_processes(self) -> set[int]:
        """Accept the sandbox's current processes as its own; returns the new ones that still live.

        Call this only while there is no player.
        """
        before, self._processes = self._processes, set(descendants(self._root))
        return {pid for pid in self._processes - before if not has_ended(pid)}

    def seal(self, cache: str) -> None:
        """Record the state of this cache: its build is over, and no player may change it from now on."""
        if self._sandboxed:
            self._seals[cache] = self._read_seal(cache)

    def watch(self, folder: Path) -> None:
        """Record the state of another folder that players see: no player may change it from now on."""
        self._shown.append(folder)
        self._files = self._digest_files()

    def is_sealed(self, cache: str) -> bool:
        return cache in self._seals

    def cached_bytes(self, cache: str) -> int:
        """The size of what the build of this cache left in it; 0 without a sandbox, where no tmpfs holds it."""
        if not self._sandboxed:
            return 0
        facts = os.statvfs(self._caches / cache)
        return (facts.f_blocks - facts.f_bfree) * facts.f_frsize

    def has_in_cache(self, cache: str, folder: str) -> bool:
        """Whether a folder of a cache has entries.  Its name and its contents are the players'."""
        try:
            files = self._caches / cache / inner_sandbox.FILES if self._sandboxed else self._stage / "tmp"
            inside = os.open(files / folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            return False
        try:
            with os.scandir(inside) as entries:
                return any(True for _ in entries)
        finally:
            os.close(inside)

    def _read_seal(self, cache: str) -> object:
        facts = os.statvfs(self._caches / cache)
        return _digest(self._caches / cache), facts.f_bfree, facts.f_ffree

    def strays(self) -> list[int]:
        """The pids of living processes of the sandbox that it did not start with."""
        return [pid for pid in descendants(self._root) if pid not in self._processes and not has_ended(pid)]

    def kill_strays(self) -> None:
        """Kill all strays, where no pid namespace ends them at once.  Raises JudgeError if they keep appearing."""
        give_up = time.monotonic() + TEARDOWN_S
        while strays := self.strays():
            for pid in strays:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if time.monotonic() > give_up:
                raise JudgeError(f"a player starts processes faster than they can be killed: {listed(strays)}")

    def unowned(self, cache: str) -> int:
        """Memory that belongs to no process, in bytes, without what this cache takes; the kernel's objects included."""
        now = Meminfo.read()
        return now.unowned + now.kernels - self.cached_bytes(cache)

    def await_unowned(self, cache: str, before: int) -> None:
        """Wait until the memory that belongs to no process has shrunk to `before`, its size before the ended player.

        The kernel frees some of it late: files and folders in transit between two sockets.  That work would slow the
        next player.
        Gives up as soon as the memory stops shrinking, because another program may use the rest.
        """
        least, give_up = self.unowned(cache), time.monotonic() + _FREED_LATER_S
        while self._sandboxed and least > before + _LITTLE_BYTES and time.monotonic() < give_up:
            time.sleep(0.005)
            if (now := self.unowned(cache)) < least:
                least, give_up = now, time.monotonic() + _FREED_LATER_S

    def check(self) -> None:
        """The short check.

        Raises:
            Foul: the player changed the priority of the group, as it can where /proc is writable.
            JudgeError: anything else has changed.
        """
        give_up = time.monotonic() + _GRACE_S
        while strays := self.strays():
            if time.monotonic() > give_up:
                raise JudgeError(f"a player has ended, but some of its processes still run: {listed(strays)}")
            time.sleep(0.001)
        if self._read_group() != self._group:
            self._restore_group()
            raise Foul(Verdict.SECURITY_VIOLATION, "The process wrote to /proc/self/autogroup.")
        if self._read_limits() != self._limits:
            raise JudgeError("the limits or the priority of the referee or the warm parent changed while a player ran")
        if self._digest_files() != self._files:
            raise JudgeError(f"the files shown to a player changed while it ran: {self._stage}")

    def check_thoroughly(self) -> None:
        """The thorough check.  Raises JudgeError."""
        self.check()
        if self._sandboxed:
            self._check_whole_machine()
        for cache, seal in self._seals.items():
            if self._read_seal(cache) != seal:
                raise JudgeError(f"a later player changed the cache that the build of {cache} filled")
        self._check_memory()

    def _check_whole_machine(self) -> None:
        """Find processes that escaped every listing: they are still in the players' user namespace."""
        if not (users := _users_of(self._warm_parent)):
            return
        everybody = (int(name) for name in os.listdir("/proc") if name.isdigit())
        theirs = (pid for pid in everybody if pid not in self._processes and _users_of(pid) == users)
        if strays := [pid for pid in theirs if not has_ended(pid)]:
            raise JudgeError(f"the last player has ended, but some of its processes still run: {listed(strays)}")

    def _check_memory(self) -> None:
        allowed = self._unowned + self._cached_bytes() + int(_GROWTH * MACHINE_BYTES)
        give_up = time.monotonic() + _RETURN_S
        while (now := Meminfo.read().unowned) > allowed:
            if time.monotonic() > give_up:
                grown = (now - self._unowned) / 2**30
                raise JudgeError(f"the last player ended, but {grown:.1f} GiB that no process owns are still in use")
            time.sleep(0.01)

    def _cached_bytes(self) -> int:
        return sum(map(self.cached_bytes, self._seals))

    def _digest_files(self) -> list[str]:
        return [_digest(folder) for folder in self._shown]

    def _read_limits(self) -> list[object]:
        limits = [Path(f"/proc/{process}/limits").read_bytes() for process in ("self", self._warm_parent)]
        scheduling = os.sched_getscheduler(self._warm_parent), os.getpriority(os.PRIO_PROCESS, self._warm_parent)
        return [*limits, os.sched_getaffinity(0), *scheduling]

    @property
    def _group_file(self) -> Path:
        return Path(f"/proc/{self._warm_parent}/autogroup")

    def _read_group(self) -> str:
        """The priority of the group that all processes of a session share; "" if this kernel has no groups."""
        return self._group_file.read_text() if self._group_file.exists() else ""

    def _restore_group(self) -> None:
        """Undo the change, as later players are not to blame; if that is impossible, let the sandbox start no other."""
        with contextlib.suppress(OSError):
            self._group_file.write_text(self._group.split()[-1])
        self.is_spent = self._read_group() != self._group


def _users_of(pid: int) -> str:
    """A process's user namespace; "" if we may not read it: then it is not one of our players."""
    try:
        return os.readlink(f"/proc/{pid}/ns/user")
    except OSError:
        return ""


def _digest(folder: Path) -> str:
    """A digest of the names, sizes and times of a folder and its contents.  Opens no file: they may be hostile."""
    digest = hashlib.sha256()
    for path in itertools.islice(_walk(str(folder)), _MAX_FILES):
        with contextlib.suppress(OSError):
            facts = os.lstat(path)
            known = (path, facts.st_ino, facts.st_mode, facts.st_size, facts.st_mtime_ns)
            digest.update(repr(known).encode())
    return digest.hexdigest()


def _walk(folder: str) -> Iterator[str]:
    """All paths below a folder, as deep as paths reach; no recursion, because builds may nest thousands of folders."""
    waiting = [folder]
    while waiting:
        yield (path := waiting.pop())
        with contextlib.suppress(OSError), os.scandir(path) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                else:
                    yield entry.path
