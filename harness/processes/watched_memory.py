"""The machine's memory of a player that no cgroup limits, measured from outside while it runs and after each window.

We count what provably belongs to the player: the pages of its processes, their page tables, and the shared memory that
they have mapped or open.  The player can hide more in sockets, pipes or the kernel's lists.  We tolerate that until the
machine is about to run out of memory.
"""

from __future__ import annotations

import contextlib
import math
import os
import random
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Self

from harness.processes import cgroup
from harness.processes.freezer import Freezer
from harness.records.errors import JudgeError, MemoryShortage
from harness.records.verdict import Foul, Verdict

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
MACHINE_BYTES = os.sysconf("SC_PHYS_PAGES") * _PAGE_BYTES
_LIMIT = limit if (limit := cgroup.find_memory_limit()) and limit.bytes < MACHINE_BYTES else None
USABLE_BYTES = _LIMIT.bytes if _LIMIT else MACHINE_BYTES
"""The machine's memory, or as much of it as our container or service may use."""
_LEFT = 0.04
"""A machine with a smaller share of its memory available is about to run out."""
_LOOKING = 0.05
"""The largest share of the time that measuring may take: with many processes, one measurement takes long."""
_AFTER_OTHERS_S = 0.5
"""Maximum random delay, so that several judges on one machine do not all end their players at once."""
_TIGHT = 0.25
"""With a smaller share of the machine's memory available, each check keeps what was left."""
_RECENT_S = 1.0
"""How old a measurement may be to show what a player used before the kernel killed it."""
_RETURN_S = 30.0
"""How long the kernel and the driver may take to free what an ended player held: gigabytes in files that were under way
between two sockets, and GPU memory."""


@dataclass(frozen=True)
class Meminfo:
    """The whole machine's memory, in bytes."""

    available: int
    unowned: int
    """Memory that belongs to no process: tmpfs, memfds, System V segments and page tables."""
    swapped: int = 0
    kernels: int = 0
    """Memory of the kernel's own objects that it frees only with what they describe, such as files."""

    @property
    def left(self) -> int:
        """Available memory minus used swap, in bytes: it grows by all memory that an ended process held."""
        return self.available - self.swapped

    @classmethod
    def read(cls) -> Self:
        return cls.parse(_read("/proc/meminfo")).limited()

    @classmethod
    def parse(cls, text: bytes) -> Self:
        """Parse `/proc/meminfo`, in microseconds: this runs after each window."""
        return cls(
            available=_field(text, b"MemAvailable"),
            unowned=_field(text, b"Shmem") + _field(text, b"PageTables"),
            swapped=_field(text, b"SwapTotal") - _field(text, b"SwapFree"),
            kernels=_field(text, b"SUnreclaim"),
        )

    def limited(self) -> Self:
        """With what our container or service still has available, if it has a limit."""
        return replace(self, available=min(self.available, _LIMIT.left_bytes)) if _LIMIT else self


class MemorySource(ABC):
    """One kind of memory that a player uses.  Methods that a source need not have do nothing here."""

    def check(self) -> None:
        """Raises Foul if the player uses more than allowed.  May do nothing too soon after the last look."""
        self.look()

    @abstractmethod
    def look(self) -> None:
        """As `check`, at once."""

    def check_machine(self) -> None:
        """The part of `check` that takes microseconds, for any time at which the player runs."""

    def check_kill(self) -> None:
        """Call this if SIGKILL ended the player.  Raises Foul or JudgeError if the kernel's OOM killer sent it."""

    def suspect(self, shortage: MemoryShortage) -> Foul | MemoryShortage:
        """The error if memory runs out beside the player, which can hide some where no cgroup counts it."""
        return shortage

    def expect_end(self) -> None:
        """Call this right before the player is killed."""

    def settle(self) -> None:
        """Call this after the player was killed.  Raises JudgeError if another program used the memory."""

    def close(self) -> None:
        """Call this when the player is gone."""


class MeasuredMemory(MemorySource):
    """Memory that is measured from outside, while the player runs and after each window."""

    _clock = staticmethod(time.monotonic)
    """Says how long a measurement takes, in seconds."""

    def __init__(self, freezer: Freezer, limit_bytes: int) -> None:
        self._freezer = freezer
        self._limit_bytes = limit_bytes
        self._next_look = 0.0
        self._is_suspected = False
        """Whether the player's end must prove that it used the memory."""
        self._left_before_end = 0

    def check(self) -> None:
        if time.monotonic() < self._next_look:
            self.check_machine()
            return
        began = self._clock()
        self.look()
        self._next_look = time.monotonic() + (self._clock() - began) / _LOOKING

    @abstractmethod
    def _left(self) -> int:
        """The memory still available, in bytes."""

    @abstractmethod
    def _disproof(self) -> JudgeError:
        """The error if it was not the player that used the memory."""

    @property
    def _allowed(self) -> str:
        return f"the limit is {round(self._limit_bytes / 2**30, 1):g} GiB"

    @property
    def _kept(self) -> int:
        """Bytes of the player's that its end does not free."""
        return 0

    def expect_end(self) -> None:
        if self._is_suspected:
            with contextlib.suppress(Foul, JudgeError):
                self._freezer.stop()
            self._left_before_end = self._find_left_before_end()

    def _find_left_before_end(self) -> int:
        """What is left while the player still holds its memory."""
        return self._left()

    def settle(self) -> None:
        give_up = time.monotonic() + _RETURN_S
        while self._is_suspected and self._left() - self._left_before_end + self._kept <= self._limit_bytes:
            if time.monotonic() > give_up:
                raise self._disproof()
            time.sleep(0.01)


class WatchedMemory(MeasuredMemory):
    """The machine's memory, measured where no cgroup counts it."""

    _clock = staticmethod(time.thread_time)
    """CPU time, which excludes waits for a core: each would delay the next measurement by twenty times its length."""

    def __init__(
        self, player: int, freezer: Freezer, limit_bytes: int, cached_bytes: Callable[[], int] = lambda: 0
    ) -> None:
        super().__init__(freezer, limit_bytes)
        self._player = player
        self._cached_bytes = cached_bytes
        self._cached_before = cached_bytes()
        self._statm = os.open(f"/proc/{player}/statm", os.O_RDONLY)
        self._meminfo = os.open("/proc/meminfo", os.O_RDONLY)
        self._before = self._read_meminfo()
        self._least_left = min(int(_LEFT * USABLE_BYTES), self._before.available // 2)
        self._killed_before = _killed_by_the_kernel()
        self._left_at = -math.inf, 0
        """When the machine was last checked while its memory was tight, and what was left then."""
        self._oom_score = _oom_score_of(player)
        self._shortage: MemoryShortage | None = None
        """Why the player is suspected, if it is because the referee found too little memory."""

    def look(self) -> None:
        machine = self._check_machine()
        processes = self._freezer.processes()
        if any(_oom_score_of(pid) < self._oom_score for pid in processes):
            # Where /proc is writable, as with a GPU, a process can do that.  The kernel would end other programs first.
            raise Foul(Verdict.SECURITY_VIOLATION, "A process wrote to /proc/self/oom_score_adj.")
        # An upper bound: it counts pages shared by forks once for each process, and shared memory of other programs.
        most = sum(map(self._resident_bytes, processes)) + max(0, machine.unowned - self._before.unowned)
        most += max(0, machine.swapped - self._before.swapped)
        # Hundreds of processes take seconds to measure, and can take all of the machine's memory meanwhile.
        if most > self._limit_bytes and (used := _provable_bytes(processes, self.check_machine)) > self._limit_bytes:
            raise Foul(Verdict.MEMORY_LIMIT_EXCEEDED, f"Used {used / 2**30:.1f} GiB of memory; {self._allowed}.")

    def check_machine(self) -> None:
        self._check_machine()

    def _check_machine(self) -> Meminfo:
        machine = self._read_meminfo()
        if machine.available < _TIGHT * USABLE_BYTES:
            self._left_at = time.monotonic(), self._left()
        if machine.available < self._least_left:
            raise self._suspect()
        return machine

    def _suspect(self) -> Foul:
        self._is_suspected = True
        return Foul(Verdict.MEMORY_LIMIT_EXCEEDED, f"Used all of the machine's memory; {self._allowed}.")

    def _left(self) -> int:
        return self._read_meminfo().left + _kept_by_cores()

    @property
    def _allowed(self) -> str:
        cached_gib = round(self._cached_before / 2**30, 1)
        if not cached_gib:
            return super()._allowed
        limit_gib = round((self._limit_bytes + self._cached_before) / 2**30, 1)
        return f"the limit is {limit_gib:g} GiB, of which its cache takes {cached_gib:g}"

    @property
    def _kept(self) -> int:
        return self._cached_bytes() - self._cached_before

    def _disproof(self) -> JudgeError:
        return self._shortage or machine_ran_out()

    def suspect(self, shortage: MemoryShortage) -> Foul | MemoryShortage:
        # Whatever the player holds is missing now.
        if self._before.left - self._read_meminfo().left <= self._limit_bytes:
            return shortage
        self._shortage = shortage
        return self._suspect()

    def check_kill(self) -> None:
        if self._was_killed:
            is_recent = time.monotonic() - self._left_at[0] < _RECENT_S
            raise self._suspect() if is_recent else machine_ran_out()

    @property
    def _was_killed(self) -> bool:
        return _killed_by_the_kernel() > self._killed_before

    def _find_left_before_end(self) -> int:
        if self._was_killed:
            # The kernel has freed what it killed: only what was left at the last check shows how much that was.
            return min(self._left(), self._left_at[1])
        time.sleep(random.uniform(0, _AFTER_OTHERS_S))  # noqa: S311
        return self._left()

    def close(self) -> None:
        os.close(self._statm)
        os.close(self._meminfo)

    def _read_meminfo(self) -> Meminfo:
        return Meminfo.parse(os.pread(self._meminfo, 8192, 0)).limited()

    def _resident_bytes(self, pid: int) -> int:
        try:
            text = os.pread(self._statm, 256, 0) if pid == self._player else _read(f"/proc/{pid}/statm")
            return (int(text.split()[1]) or _resident_pages(_thread_of(pid))) * _PAGE_BYTES
        except OSError:  # it has ended
            return 0


def _thread_of(pid: int) -> str:
    """The folder in /proc that shows a process's memory and files: after the end of its first thread, another's.

    Raises OSError: the process has ended.
    """
    process = f"/proc/{pid}"
    if _resident_pages(process):
        return process
    threads = (f"{process}/task/{thread}" for thread in os.listdir(f"{process}/task"))
    return next((thread for thread in threads if _resident_pages(thread)), process)


def _resident_pages(folder: str) -> int:
    return int(_read(f"{folder}/statm").split()[1])


def _provable_bytes(processes: Collection[int], meanwhile: Callable[[], None] = lambda: None) -> int:
    """The bytes that provably belong to these processes; a shared page counts in shares.

    Takes milliseconds for each process; `meanwhile` is called before each.
    """
    own, mapped = 0, 0
    for pid in processes:
        meanwhile()
        with contextlib.suppress(OSError):  # it has ended
            thread = _thread_of(pid)
            rollup, status = _read(f"{thread}/smaps_rollup"), _read(f"{thread}/status")
            shared = _field(rollup, b"Pss_Shmem")
            own += _field(rollup, b"Pss") - shared + _field(rollup, b"SwapPss") + _field(status, b"VmPTE")
            mapped += shared
    # Maximum, not sum: open memfds may also be mapped.
    return own + max(mapped, _open_bytes(processes))


def _open_bytes(processes: Collection[int]) -> int:
    """The bytes in memfds that these processes have open.  Not tmpfs files: those have a size limit of their own."""
    found: dict[int, int] = {}
    ours = os.memfd_create("ours")
    memfds = os.fstat(ours).st_dev
    os.close(ours)
    for pid in processes:
        with contextlib.suppress(OSError):
            folder = f"{_thread_of(pid)}/fd"
            for descriptor in os.listdir(folder):
                with contextlib.suppress(OSError):
                    facts = os.stat(f"{folder}/{descriptor}")
                    if facts.st_dev == memfds:
                        found[facts.st_ino] = facts.st_blocks * 512
    return sum(found.values())


def _oom_score_of(pid: int) -> int:
    """How likely the kernel is to end the process when memory runs out, up to 1000; 1000 if it has ended."""
    try:
        return int(_read(f"/proc/{pid}/oom_score_adj"))
    except OSError:
        return 1000


def _killed_by_the_kernel() -> int:
    """How many processes the kernel's OOM killer has killed since boot."""
    return cgroup.count_events(_read("/proc/vmstat"), "oom_kill")


def _kept_by_cores() -> int:
    """The bytes that were freed, but that cores keep in lists of their own: gigabytes, and for half a minute."""
    pages = re.findall(rb"^ +count: +(\d+)$", _read("/proc/zoneinfo"), re.MULTILINE)
    return sum(map(int, pages)) * _PAGE_BYTES


def machine_ran_out() -> JudgeError:
    return JudgeError("the machine ran out of memory, but not because of the player that was killed")


def _field(text: bytes, name: bytes) -> int:
    """A field of `/proc/meminfo` or a similar file, in bytes; 0 if this kernel does not have it."""
    start = text.find(b"\n" + name + b":")
    return 0 if start < 0 else int(text[start + len(name) + 2 : text.index(b"kB", start)]) * 1024


def _read(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.read()
