"""Measure how much memory a player uses, on the machine and on its GPU, and end it if it exceeds its limit.

limited   The player's cgroup counts everything, and the kernel kills the player at the limit.  We only read the event.
watched   Without such a cgroup, we repeatedly measure what is the player's (`watched_memory`).
a GPU     The driver reports the total memory in use (`card_watch`).

Sometimes only the player's end can prove its use: the player is at fault if its end frees more than its limit.  If not,
another program used the memory, and the judging is void.  What its build left in its cache is not freed, but counts.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from harness.gpu.gpu_memory import ReadCard
from harness.processes import cgroup
from harness.processes.card_watch import CardWatch
from harness.processes.freezer import CgroupFreezer, Freezer
from harness.processes.watched_memory import USABLE_BYTES, MemorySource, WatchedMemory, machine_ran_out
from harness.records.errors import MemoryShortage
from harness.records.verdict import Foul, Verdict

_MOST_SHARE = 0.75
"""The share of the machine's memory that a player may have, whatever its task allows.  With more, it could exhaust the
machine without exceeding its limit."""


class Memory:
    """All memory of one player; its methods are those of `MemorySource`."""

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

    def suspect(self, shortage: MemoryShortage) -> Foul | MemoryShortage:
        """The error if memory runs out beside the player, which can hide some where no cgroup counts it."""
        errors = (source.suspect(shortage) for source in self.sources)
        return next((error for error in errors if isinstance(error, Foul)), shortage)

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
    cards: Sequence[ReadCard] = (),
    card_bytes: int | None = None,
    cached_bytes: Callable[[], int] = lambda: 0,
) -> Memory:
    """All memory of a player.

    Args:
        limit_bytes: its limit, beside what is in its cache now.
        card_bytes: its limit on each card, or None for all but the referee's share.
        cached_bytes: returns the size of its cache.
    """
    with contextlib.suppress(OSError):
        # If the machine still runs out of memory, the kernel kills the player first, never the referee.
        Path(f"/proc/{player}/oom_score_adj").write_text("1000")
    machine: MemorySource = (
        LimitedMemory(freezer.folder, limit_bytes)
        if isinstance(freezer, CgroupFreezer) and freezer.limits_memory
        else WatchedMemory(player, freezer, limit_bytes, cached_bytes)
    )
    return Memory([machine, *(CardWatch(card, freezer, card_bytes, machine.check_machine) for card in cards)])


class LimitedMemory(MemorySource):
    """Memory that the player's cgroup counts and limits."""

    def __init__(self, folder: Path, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._events = os.open(folder / "memory.events", os.O_RDONLY)

    def look(self) -> None:
        if self._count("oom"):
            limit_gib = round(self._limit_bytes / 2**30, 1)
            raise Foul(Verdict.MEMORY_LIMIT_EXCEEDED, f"Used more than {limit_gib:g} GiB of memory.")

    def check_kill(self) -> None:
        self.look()
        # This counts every kill, no matter what ran out of memory: this group, one above it, or the machine.
        if self._count("oom_kill"):
            raise machine_ran_out()

    def _count(self, event: str) -> int:
        return cgroup.count_events(os.pread(self._events, 4096, 0), event)

    def close(self) -> None:
        os.close(self._events)


def limit_of(memory_gib: float) -> int:
    """A player's limit in bytes: what its task allows, but never nearly all of this machine's memory."""
    return min(int(memory_gib * 2**30), int(_MOST_SHARE * USABLE_BYTES))
