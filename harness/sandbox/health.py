"""Whether the machine is as it was before a player came.

A short look after every player's end, a thorough one after the last.  What is found is never a participant's fault:
the walls should have held.  So it is ours, and the judging is void.

    processes   the sandbox has only those that it started with, and no other on the machine shares its users
    limits      the referee's and the warm parent's; the cores that the referee may use
    files       what the players were shown, and the caches that their builds have filled
    memory      what belongs to no process has not grown
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

from harness.inside import walls
from harness.records.errors import JudgeError
from harness.sandbox.freezer import TEARDOWN_S, descendants, has_ended, listed
from harness.sandbox.memory import MACHINE_BYTES, Meminfo

_GRACE_S = 5.0
"""How long what was killed with a player may still be on its way out."""
_RETURN_S = 2.0
"""How long the machine may take to have back what the last player held."""
_MAX_FILES = 2_000
"""How much of a folder is looked at: a build may leave a hundred thousand files, a thousand folders deep."""
_GROWTH = 0.1
"""By as much of the machine's memory other programs may have grown meanwhile."""


class Health:
    """How a sandbox was before its first player, and whether it still is so.

    `root` is its outermost process, `warm_parent` the one that forks players, both as our namespace numbers them.
    """

    def __init__(self, root: int, warm_parent: int, stage: Path, *, walled: bool) -> None:
        self._root = root
        self._warm_parent = warm_parent
        self._walled = walled
        # Unwalled players have their home in the stage.
        self._shown = stage / "player" if not walled else stage
        self._caches = Path(f"/proc/{warm_parent}/root{walls.CACHES}")
        self._seals: dict[str, object] = {}
        self.include_processes()
        self._limits = self._read_limits()
        self._files = _digest(self._shown)
        self._unowned = Meminfo.read().unowned

    def include_processes(self) -> None:
        """Take those that the sandbox has now for its own: no player may be there."""
        self._processes = set(descendants(self._root))

    def seal(self, cache: str) -> None:
        """From here on nobody may change this cache: its build is over."""
        if self._walled:
            self._seals[cache] = self._read_seal(cache)

    def _read_seal(self, cache: str) -> object:
        facts = os.statvfs(self._caches / cache)
        return _digest(self._caches / cache), facts.f_bfree, facts.f_ffree

    def strays(self) -> list[int]:
        """Living processes of the sandbox that it did not start with."""
        return [pid for pid in descendants(self._root) if pid not in self._processes and not has_ended(pid)]

    def kill_strays(self) -> None:
        """Where no namespace ends them all at once."""
        give_up = time.monotonic() + TEARDOWN_S
        while strays := self.strays():
            for pid in strays:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if time.monotonic() > give_up:
                raise JudgeError(f"processes are started faster than they can be killed: {listed(strays)}")

    def check(self) -> None:
        """The short look.  Raises JudgeError."""
        give_up = time.monotonic() + _GRACE_S
        while strays := self.strays():
            if time.monotonic() > give_up:
                raise JudgeError(f"a player has ended, and processes of its are left: {listed(strays)}")
            time.sleep(0.001)
        if self._read_limits() != self._limits:
            raise JudgeError("a player has ended, and the limits of the referee or the warm parent are not as before")
        if _digest(self._shown) != self._files:
            raise JudgeError(f"a player has ended, and the files that it was shown are not as before: {self._shown}")

    def check_thoroughly(self) -> None:
        """The long look.  Raises JudgeError."""
        self.check()
        if self._walled:
            self._check_whole_machine()
        for cache, seal in self._seals.items():
            if self._read_seal(cache) != seal:
                raise JudgeError(f"the cache that the build of {cache} has filled was changed by a later player")
        self._check_memory()

    def _check_whole_machine(self) -> None:
        """Whoever got out of every listing is still in the players' user namespace."""
        if not (users := _users_of(self._warm_parent)):
            return
        everybody = (int(name) for name in os.listdir("/proc") if name.isdigit())
        theirs = (pid for pid in everybody if pid not in self._processes and _users_of(pid) == users)
        if strays := [pid for pid in theirs if not has_ended(pid)]:
            raise JudgeError(f"the last player has ended, and processes of its are left: {listed(strays)}")

    def _check_memory(self) -> None:
        allowed = self._unowned + self._cached_bytes() + int(_GROWTH * MACHINE_BYTES)
        give_up = time.monotonic() + _RETURN_S
        while (now := Meminfo.read().unowned) > allowed:
            if time.monotonic() > give_up:
                grown = (now - self._unowned) / 2**30
                raise JudgeError(f"the last player has ended, and {grown:.1f} GiB are still in use that nobody owns")
            time.sleep(0.01)

    def _cached_bytes(self) -> int:
        facts = [os.statvfs(self._caches / cache) for cache in self._seals]
        return sum((fact.f_blocks - fact.f_bfree) * fact.f_frsize for fact in facts)

    def _read_limits(self) -> list[object]:
        limits = [Path(f"/proc/{process}/limits").read_bytes() for process in ("self", self._warm_parent)]
        return [*limits, os.sched_getaffinity(0)]


def _users_of(pid: int) -> str:
    """A process's user namespace; "" where we may not know it: then it is no player of ours."""
    try:
        return os.readlink(f"/proc/{pid}/ns/user")
    except OSError:
        return ""


def _digest(folder: Path) -> str:
    """Of the names, sizes and times of a folder and what is in it.  It may be hostile: nothing is opened."""
    digest = hashlib.sha256()
    for path in itertools.islice(_walk(str(folder)), _MAX_FILES):
        with contextlib.suppress(OSError):
            facts = os.lstat(path)
            known = (path, facts.st_ino, facts.st_mode, facts.st_size, facts.st_mtime_ns)
            digest.update(repr(known).encode())
    return digest.hexdigest()


def _walk(folder: str) -> Iterator[str]:
    """As deep as paths reach; without recursion, for a build may nest folders by the thousand."""
    waiting = [folder]
    while waiting:
        yield (path := waiting.pop())
        with contextlib.suppress(OSError), os.scandir(path) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                else:
                    yield entry.path
