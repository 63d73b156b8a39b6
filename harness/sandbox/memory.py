"""How much memory a player uses, on the machine and on its GPU, and the end of it when that is too much.

limited   Its cgroup counts everything, and the kernel kills it at the limit; here we only learn of it.
watched   Where there is no such cgroup, we look again and again at what can be proved to be the player's:
          the pages of its processes, their page tables, the shared memory that they have mapped or open.
          It can hide some more, in sockets, pipes or System V segments.  That is let be until the machine is
          about to run out of memory.
a GPU     Its driver says what is used in all.  The GPU is this judging's alone: what is new on it since the player
          came is the player's, but for what the referee took himself.

What can't be proved while the player lives is proved by its end: it is at fault if that gives back more than it may
use.  If it does not, somebody else was, and the judging is void.
"""

from __future__ import annotations

import contextlib
import os
import random
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self

from harness.gpu.gpu_memory import Card, CardMemory
from harness.records.errors import JudgeError
from harness.records.verdict import Foul, Verdict
from harness.sandbox import cgroup
from harness.sandbox.freezer import CgroupFreezer, Freezer

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
MACHINE_BYTES = os.sysconf("SC_PHYS_PAGES") * _PAGE_BYTES
_LEFT = 0.04
"""A machine that has a smaller share of its memory available is about to fail."""
_LOOKING = 0.05
"""At most this share of the time goes into looking: many processes make a look long."""
_AFTER_OTHERS_S = 0.5
"""Where several judges see the machine run out, they don't all end their players in the same moment."""
_RETURN_S = 5.0
"""How long it may take to free what an ended player held: System V segments, and a GPU's gigabytes."""
_REFEREES_SHARE = 1 / 16
"""Of a GPU's memory, what a player leaves free if nothing else is said: the referee makes inputs and answers there."""


class MemorySource(Protocol):
    """One kind of memory that a player uses."""

    def check(self) -> None:
        """Raises Foul if it is more than allowed."""

    def check_kill(self) -> None:
        """The player was ended by SIGKILL.  Raises Foul or JudgeError if that was the kernel, for want of memory."""

    def expect_end(self) -> None:
        """It will be killed now."""

    def settle(self) -> None:
        """It has been killed.  Raises JudgeError if it was blamed for what others have done."""

    def close(self) -> None: ...


class Memory:
    """All memory of one player: a `MemorySource`, too."""

    def __init__(self, sources: Sequence[MemorySource]) -> None:
        self.sources = sources

    def check(self) -> None:
        for source in self.sources:
            source.check()

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
    player: int, freezer: Freezer, limit_bytes: int, cards: Sequence[Card] = (), card_bytes: int | None = None
) -> Memory:
    """What a player uses; `card_bytes` is its limit on each of `cards`, None for all that the referee can spare."""
    with contextlib.suppress(OSError):
        # If the machine runs out of memory all the same: the player first, never the referee.
        Path(f"/proc/{player}/oom_score_adj").write_text("1000")
    of_cards = [CardWatch(card, freezer, card_bytes) for card in cards]
    if isinstance(freezer, CgroupFreezer) and freezer.limits_memory:
        return Memory([LimitedMemory(freezer.folder, limit_bytes), *of_cards])
    return Memory([WatchedMemory(player, freezer, limit_bytes), *of_cards])


class LimitedMemory:
    """Counted and limited by the player's cgroup."""

    def __init__(self, folder: Path, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._events = os.open(folder / "memory.events", os.O_RDONLY)

    def check(self) -> None:
        if self._count("oom"):
            raise Foul(Verdict.MEMORY_LIMIT_EXCEEDED, f"Used more than {self._limit_bytes / 2**30:g} GiB of memory.")

    def check_kill(self) -> None:
        self.check()
        # Counted here, whoever ran out of memory: this group, one above it, or the machine.
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
    """What belongs to no process: tmpfs, memfds, System V segments; page tables."""

    @classmethod
    def read(cls) -> Self:
        return cls.parse(_read("/proc/meminfo"))

    @classmethod
    def parse(cls, text: bytes) -> Self:
        """Of the text of `/proc/meminfo`, in microseconds: this is done after each window."""
        return cls(_field(text, b"MemAvailable"), _field(text, b"Shmem") + _field(text, b"PageTables"))


class _Watched(ABC):
    """Looked at from outside: while the player runs, and after each window."""

    def __init__(self, freezer: Freezer, limit_bytes: int) -> None:
        self._freezer = freezer
        self._limit_bytes = limit_bytes
        self._next_look = 0.0
        self._is_suspected = False
        """Its end must prove it."""
        self._left_before_end = 0

    def check(self) -> None:
        if (began := time.monotonic()) < self._next_look:
            return
        self._look()
        ended = time.monotonic()
        self._next_look = ended + (ended - began) / _LOOKING

    @abstractmethod
    def _look(self) -> None:
        """Raises Foul if it is more than allowed."""

    @abstractmethod
    def _left(self) -> int:
        """What is still to be had, in bytes."""

    @abstractmethod
    def _disproof(self) -> JudgeError:
        """What to say where it was not the player."""

    @property
    def _allowed(self) -> str:
        return f"{self._limit_bytes / 2**30:g} GiB are allowed"

    def expect_end(self) -> None:
        if self._is_suspected:
            with contextlib.suppress(Foul, JudgeError):
                self._freezer.stop()
            self._left_before_end = self._left()

    def settle(self) -> None:
        give_up = time.monotonic() + _RETURN_S
        while self._is_suspected and self._left() - self._left_before_end <= self._limit_bytes:
            if time.monotonic() > give_up:
                raise self._disproof()
            time.sleep(0.01)


class WatchedMemory(_Watched):
    """The machine's memory, where no cgroup counts it."""

    def __init__(self, player: int, freezer: Freezer, limit_bytes: int) -> None:
        super().__init__(freezer, limit_bytes)
        self._player = player
        self._statm = os.open(f"/proc/{player}/statm", os.O_RDONLY)
        self._meminfo = os.open("/proc/meminfo", os.O_RDONLY)
        self._before = self._read_meminfo()
        self._least_left = min(int(_LEFT * MACHINE_BYTES), self._before.available // 2)
        self._killed_before = _killed_by_the_kernel()

    def _look(self) -> None:
        machine = self._read_meminfo()
        if machine.available < self._least_left:
            self._is_suspected = True
            raise Foul(Verdict.MEMORY_LIMIT_EXCEEDED, f"Used all the memory of the machine; {self._allowed}.")
        processes = self._freezer.processes()
        # More than it can be: pages that forks share are counted for each of them, and what others share as well.
        most = sum(map(self._resident_bytes, processes)) + max(0, machine.unowned - self._before.unowned)
        if most > self._limit_bytes and (used := _provable_bytes(processes)) > self._limit_bytes:
            raise Foul(Verdict.MEMORY_LIMIT_EXCEEDED, f"Used {used / 2**30:.1f} GiB of memory; {self._allowed}.")

    def _left(self) -> int:
        return self._read_meminfo().available

    def _disproof(self) -> JudgeError:
        return _machine_ran_out()

    def check_kill(self) -> None:
        if _killed_by_the_kernel() > self._killed_before:
            raise _machine_ran_out()

    def expect_end(self) -> None:
        if self._is_suspected:
            time.sleep(random.uniform(0, _AFTER_OTHERS_S))  # noqa: S311
        super().expect_end()

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
    """A GPU's memory: of all that is new on it since the player came, what the referee did not take himself."""

    def __init__(self, card: Card, freezer: Freezer, limit_bytes: int | None) -> None:
        self._card = card
        self._before = self._ask()
        self._ours_before = _held_on_gpu()
        spare = max(0, self._before.free - int(_REFEREES_SHARE * self._before.total))
        super().__init__(freezer, spare if limit_bytes is None else min(limit_bytes, spare))

    def _look(self) -> None:
        used = self._ask().used - self._before.used - (_held_on_gpu() - self._ours_before)
        if used > self._limit_bytes:
            self._is_suspected = True
            message = f"Used {used / 2**30:.1f} GiB of the GPU's memory; {self._allowed}."
            raise Foul(Verdict.MEMORY_LIMIT_EXCEEDED, message)

    @property
    def _allowed(self) -> str:
        return f"{self._limit_bytes / 2**30:.3g} GiB are allowed"

    def _left(self) -> int:
        return self._ask().free

    def _disproof(self) -> JudgeError:
        return JudgeError(
            "the GPU's memory was filled, and not by the player that was ended for it: see what else runs on the GPU"
        )

    def _ask(self) -> CardMemory:
        try:
            return self._card()
        except OSError as error:
            raise JudgeError(f"the GPU's driver does not say any more what memory is used: {error}") from None

    def check_kill(self) -> None:
        pass

    def close(self) -> None:
        pass


def _held_on_gpu() -> int:
    """What the referee's torch holds, in bytes; his context was there before the first player."""
    torch: Any = sys.modules.get("torch")
    return torch.cuda.memory_reserved() if torch and torch.cuda.is_initialized() else 0


def _provable_bytes(processes: Collection[int]) -> int:
    """What these processes hold: each page by their share in it.  Takes milliseconds for each of them."""
    own, mapped = 0, 0
    for pid in processes:
        with contextlib.suppress(OSError):  # it has ended
            rollup, status = _read(f"/proc/{pid}/smaps_rollup"), _read(f"/proc/{pid}/status")
            shared = _field(rollup, b"Pss_Shmem")
            own += _field(rollup, b"Pss") - shared + _field(status, b"VmPTE")
            mapped += shared
    # What is open may be mapped as well.
    return own + max(mapped, _open_bytes(processes))


def _open_bytes(processes: Collection[int]) -> int:
    """What lies in the memfds that these processes have open; tmpfs have a size of their own."""
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
    """How many processes it has killed for want of memory since the machine started."""
    return cgroup.count_events(_read("/proc/vmstat"), "oom_kill")


def _machine_ran_out() -> JudgeError:
    return JudgeError("the machine ran out of memory, and not because of the player that was ended for it")


def _field(text: bytes, name: bytes) -> int:
    """Of `/proc/meminfo` or the like, in bytes; 0 if this kernel does not tell."""
    start = text.find(b"\n" + name + b":")
    return 0 if start < 0 else int(text[start + len(name) + 2 : text.index(b"kB", start)]) * 1024


def _read(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.read()
