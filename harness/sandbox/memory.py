"""Measure how much memory a player uses, on the machine and on its GPU, and end it if it exceeds its limit.

limited   The player's cgroup counts everything, and the kernel kills the player at the limit.  We only read the event.
watched   Without such a cgroup, we repeatedly measure the memory that provably belongs to the player: the pages of its
          processes, their page tables, and the shared memory that they have mapped or open.  The player can hide more
          in sockets, pipes or the kernel's lists.  We tolerate that until the machine is about to run out of memory.
a GPU     The driver reports the total memory in use.  No other judging uses the GPU, so all growth since the player
          started belongs to the player, except for what the referee allocated.

Sometimes only the player's end can prove its use: the player is at fault if its end frees more than its limit.  If not,
another program used the memory, and the judging is void.  What its build left in its cache is not freed, but counts.
"""

from __future__ import annotations

import contextlib
import math
import os
import random
import re
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self

from harness.gpu.gpu_memory import Card, CardMemory
from harness.inside.cuda_driver import Driver
from harness.records.errors import JudgeError
from harness.records.verdict import Foul, Verdict
from harness.sandbox import cgroup
from harness.sandbox.freezer import CgroupFreezer, Freezer

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
MACHINE_BYTES = os.sysconf("SC_PHYS_PAGES") * _PAGE_BYTES
_LEFT = 0.04
"""A machine with a smaller share of its memory available is about to run out."""
_LOOKING = 0.05
"""The largest share of the time that measuring may take: with many processes, one measurement takes long."""
_AFTER_OTHERS_S = 0.5
"""Maximum random delay, so that several judges on one machine do not all end their players at once."""
_MOST_SHARE = 0.75
"""The share of the machine's memory that a player may have, whatever its task allows.  With more, it could exhaust the
machine within its limit, and nobody would be to blame."""
_TIGHT = 0.25
"""With a smaller share of the machine's memory available, each check keeps what was left."""
_RECENT_S = 1.0
"""How old a measurement may be to show what a player used before the kernel killed it."""
_RETURN_S = 30.0
"""How long the kernel and the driver may take to free what an ended player held: gigabytes in files that were under way
between two sockets, and GPU memory."""
_REFEREES_SHARE = 1 / 4
"""The share of a GPU's memory that a player must leave free: the referee has inputs and outputs there several times."""


class MemorySource(Protocol):
    """One kind of memory that a player uses."""

    def check(self) -> None:
        """Raises Foul if the player uses more than allowed.  Does nothing too soon after the last look."""

    def look(self) -> None:
        """As `check`, at once."""

    def check_machine(self) -> None:
        """The part of `check` that takes microseconds, for any time at which the player runs."""

    def check_kill(self) -> None:
        """Call this if SIGKILL ended the player.  Raises Foul or JudgeError if the kernel's OOM killer sent it."""

    def expect_end(self) -> None:
        """Call this right before the player is killed."""

    def settle(self) -> None:
        """Call this after the player was killed.  Raises JudgeError if another program used the memory."""

    def close(self) -> None: ...


class Memory:
    """All memory of one player; itself a `MemorySource`."""

    def __init__(self, sources: Sequence[MemorySource]) -> None:
        self.sources = sources

    def check(self, *, now: bool = False) -> None:
        """As for each source; with `now`, even if it has just been checked."""
        for source in self.sources:
            source.look() if now else source.check()

    def check_machine(self) -> None:
        for source in self.sources:
            source.check_machine()

    def check_kill(self) -> None:
        for source in self.sources:
            source.check_kill()

    def expect_end(self) -> None:
        for source in self.sources:
            source.expect_end()

    def settle(self) -> None:
        for source in self.sources:
            source.settle()

    def close(self) -> None:
        for source in self.sources:
            source.close()


def memory_of(
    player: int,
    freezer: Freezer,
    limit_bytes: int,
    cards: Sequence[Card] = (),
    card_bytes: int | None = None,
    cached_bytes: Callable[[], int] = lambda: 0,
) -> Memory:
    """All memory of a player.

    Args:
        card_bytes: its limit on each card, or None for all but the referee's share.
        cached_bytes: the size of the cache that its build filled.
    """
    with contextlib.suppress(OSError):
        # If the machine still runs out of memory, the kernel kills the player first, never the referee.
        Path(f"/proc/{player}/oom_score_adj").write_text("1000")
    of_cards = [CardWatch(card, freezer, card_bytes) for card in cards]
    if isinstance(freezer, CgroupFreezer) and freezer.limits_memory:
        return Memory([LimitedMemory(freezer.folder, limit_bytes), *of_cards])
    return Memory([WatchedMemory(player, freezer, limit_bytes, cached_bytes), *of_cards])


class LimitedMemory:
    """Memory that the player's cgroup counts and limits."""

    def __init__(self, folder: Path, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._events = os.open(folder / "memory.events", os.O_RDONLY)

    def check(self) -> None:
        if self._count("oom"):
            raise Foul(Verdict.MEMORY_LIMIT_EXCEEDED, f"Used more than {self._limit_bytes / 2**30:g} GiB of memory.")

    look = check

    def check_machine(self) -> None:
        pass

    def check_kill(self) -> None:
        self.check()
        # This counts every kill, no matter what ran out of memory: this group, one above it, or the machine.
        if self._count("oom_kill"):
            raise _machine_ran_out()

    def _count(self, event: str) -> int:
        return cgroup.count_events(os.pread(self._events, 4096, 0), event)

    def expect_end(self) -> None:
        pass

    def settle(self) -> None:
        pass

    def close(self) -> None:
        os.close(self._events)


@dataclass(frozen=True)
class Meminfo:
    """The whole machine's memory, in bytes."""

    available: int
    unowned: int
    """Memory that belongs to no process: tmpfs, memfds, System V segments and page tables."""
    swapped: int = 0

    @property
    def left(self) -> int:
        """What is available, less what was swapped out: it grows by what an ended process held anywhere."""
        return self.available - self.swapped

    @classmethod
    def read(cls) -> Self:
        return cls.parse(_read("/proc/meminfo"))

    @classmethod
    def parse(cls, text: bytes) -> Self:
        """Parse `/proc/meminfo`, in microseconds: this runs after each window."""
        return cls(
            available=_field(text, b"MemAvailable"),
            unowned=_field(text, b"Shmem") + _field(text, b"PageTables"),
            swapped=_field(text, b"SwapTotal") - _field(text, b"SwapFree"),
        )


def limit_of(memory_gib: float) -> int:
    """A player's limit in bytes: what its task allows, but never nearly all of this machine's memory."""
    return min(int(memory_gib * 2**30), int(_MOST_SHARE * MACHINE_BYTES))


class _Watched(ABC):
    """Memory that is measured from outside, while the player runs and after each window."""

    def __init__(self, freezer: Freezer, limit_bytes: int) -> None:
        self._freezer = freezer
        self._limit_bytes = limit_bytes
        self._next_look = 0.0
        self._is_suspected = False
        """Whether the player's end must prove that it used the memory."""
        self._left_before_end = 0

    def check(self) -> None:
        if (began := time.monotonic()) < self._next_look:
            self.check_machine()
            return
        self.look()
        ended = time.monotonic()
        self._next_look = ended + (ended - began) / _LOOKING

    @abstractmethod
    def look(self) -> None:
        """Raises Foul if the player uses more than allowed."""

    def check_machine(self) -> None:  # noqa: B027
        """Raises Foul if nothing is left."""

    @abstractmethod
    def _left(self) -> int:
        """The memory still available, in bytes."""

    @abstractmethod
    def _disproof(self) -> JudgeError:
        """The error if it was not the player that used the memory."""

    @property
    def _allowed(self) -> str:
        return f"the limit is {self._limit_bytes / 2**30:g} GiB"

    @property
    def _kept(self) -> int:
        """What the player's end does not free, in bytes, although it is the player's."""
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


class WatchedMemory(_Watched):
    """The machine's memory, measured where no cgroup counts it."""

    def __init__(
        self, player: int, freezer: Freezer, limit_bytes: int, cached_bytes: Callable[[], int] = lambda: 0
    ) -> None:
        super().__init__(freezer, limit_bytes)
        self._player = player
        self._cached_bytes = cached_bytes
        self._statm = os.open(f"/proc/{player}/statm", os.O_RDONLY)
        self._meminfo = os.open("/proc/meminfo", os.O_RDONLY)
        self._before = self._read_meminfo()
        self._least_left = min(int(_LEFT * MACHINE_BYTES), self._before.available // 2)
        self._killed_before = _killed_by_the_kernel()
        self._left_at = -math.inf, 0
        """When the machine was last checked while its memory was tight, and what was left then."""

    def look(self) -> None:
        machine = self._check_machine()
        processes = self._freezer.processes()
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
        if machine.available < _TIGHT * MACHINE_BYTES:
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
    def _kept(self) -> int:
        return self._cached_bytes()

    def _disproof(self) -> JudgeError:
        return _machine_ran_out()

    def check_kill(self) -> None:
        if self._was_killed:
            is_recent = time.monotonic() - self._left_at[0] < _RECENT_S
            raise self._suspect() if is_recent else _machine_ran_out()

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
        return Meminfo.parse(os.pread(self._meminfo, 8192, 0))

    def _resident_bytes(self, pid: int) -> int:
        try:
            text = os.pread(self._statm, 256, 0) if pid == self._player else _read(f"/proc/{pid}/statm")
            return int(text.split()[1]) * _PAGE_BYTES
        except OSError:  # it has ended
            return 0


class CardWatch(_Watched):
    """A GPU's memory: the growth since the player started, without what the referee allocated."""

    def __init__(self, card: Card, freezer: Freezer, limit_bytes: int | None) -> None:
        self._card = card
        self._before = self._ask()
        self._ours_before = _held_on_gpu()
        spare = max(0, self._before.free - int(_REFEREES_SHARE * self._before.total))
        super().__init__(freezer, spare if limit_bytes is None else min(limit_bytes, spare))

    def look(self) -> None:
        used = self._ask().used - self._before.used - (_held_on_gpu() - self._ours_before)
        if used > self._limit_bytes:
            self._is_suspected = True
            message = f"Used {used / 2**30:.1f} GiB of the GPU's memory; {self._allowed}."
            raise Foul(Verdict.MEMORY_LIMIT_EXCEEDED, message)

    @property
    def _allowed(self) -> str:
        return f"the limit is {self._limit_bytes / 2**30:.3g} GiB"

    def _left(self) -> int:
        return self._ask().free

    def _disproof(self) -> JudgeError:
        return JudgeError(
            "the GPU's memory was full, but not because of the player that was killed: check what else runs on the GPU"
        )

    def _ask(self) -> CardMemory:
        try:
            return self._card()
        except OSError as error:
            raise JudgeError(f"the GPU's driver no longer reports memory use: {error}") from None

    def check_kill(self) -> None:
        pass

    def close(self) -> None:
        pass


def _held_on_gpu() -> int:
    """The GPU memory of the referee's torch and driver, in bytes; its context existed before the first player."""
    torch: Any = sys.modules.get("torch")
    reserved = torch.cuda.memory_reserved() if torch and torch.cuda.is_initialized() else 0
    return int(reserved) + Driver.held_bytes


def _provable_bytes(processes: Collection[int], meanwhile: Callable[[], None] = lambda: None) -> int:
    """The bytes that provably belong to these processes; a shared page counts in shares.

    Takes milliseconds for each process; `meanwhile` is called before each.
    """
    own, mapped = 0, 0
    for pid in processes:
        meanwhile()
        with contextlib.suppress(OSError):  # it has ended
            rollup, status = _read(f"/proc/{pid}/smaps_rollup"), _read(f"/proc/{pid}/status")
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
            for descriptor in os.listdir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    facts = os.stat(f"/proc/{pid}/fd/{descriptor}")
                    if facts.st_dev == memfds:
                        found[facts.st_ino] = facts.st_blocks * 512
    return sum(found.values())


def _killed_by_the_kernel() -> int:
    """How many processes the kernel's OOM killer has killed since boot."""
    return cgroup.count_events(_read("/proc/vmstat"), "oom_kill")


def _kept_by_cores() -> int:
    """The bytes that were freed, but that cores keep in lists of their own: gigabytes, and for half a minute."""
    pages = re.findall(rb"^ +count: +(\d+)$", _read("/proc/zoneinfo"), re.MULTILINE)
    return sum(map(int, pages)) * _PAGE_BYTES


def _machine_ran_out() -> JudgeError:
    return JudgeError("the machine ran out of memory, but not because of the player that was killed")


def _field(text: bytes, name: bytes) -> int:
    """A field of `/proc/meminfo` or a similar file, in bytes; 0 if this kernel does not have it."""
    start = text.find(b"\n" + name + b":")
    return 0 if start < 0 else int(text[start + len(name) + 2 : text.index(b"kB", start)]) * 1024


def _read(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.read()
