"""Measure other work on the cores: what share of one it took during a run, or takes at this moment.

Times of a run with much other work cannot be ranked.  What other programs take from a player's time limits is measured
in `starvation`.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from enum import StrEnum

_TICK_NS = 12_000_000
"""A little longer than the longest tick of a kernel, which is 10 ms."""
_LISTEN_S = 0.01
"""The shortest time to measure: several turns of the kernel's scheduler, which are about 3 ms each.  Between short
windows alone, other work would go unnoticed: it has its turns within them."""
MAX_OTHER_WORK = 0.1
"""The share of a core that other work may take in a run.  On a quiet machine, no run of 112 had more than 0.02."""


class OtherWorkRule(StrEnum):
    """How a judging deals with other work."""

    ALLOW = "allow"
    """Note it."""
    AVOID = "avoid"
    """Wait a little until it ends, and repeat runs that it disturbs, but count them in the end, and note it."""
    REFUSE = "refuse"
    """Wait until it ends, repeat runs that it disturbs, and if that does not help, judge later."""


class OtherWork:
    """Other work on the cores of the players and of the referee, from `begin` to the last `look`.

    A spinner of the lowest class runs on each of the players' cores (`inside/keep_cores_awake.py`).  While the player
    is stopped, its cores belong to the spinners.  CPU time that a spinner misses then went elsewhere: to another
    process, to the kernel, or to another virtual machine.  A stopped player cannot run, so it cannot take that time
    itself.  Only work that the kernel still does for it can.

    Args:
        spinners: the pids of the processes that keep the cores awake, one for each core; none if nothing does.
        referee_spins: whether the referee sleeps only while it waits long for a player, so that other CPU time that it
            misses went elsewhere, too.
    """

    def __init__(self, spinners: Collection[int], *, referee_spins: bool = False) -> None:
        self._spinners = spinners
        self._referee_spins = referee_spins
        self._began, self._spun, self._worked = 0, list[int](), 0
        self.share = 0.0
        """The share of the time, 0 to 1, of the core that lost most; a player's core counts while it is stopped."""

    def begin(self) -> None:
        """Begin to measure; the player has just been stopped."""
        self._began, self._spun, self._worked = time.monotonic_ns(), cpu_ns_of(self._spinners), time.process_time_ns()

    def look(self, running_s: float = 0.0, slept_s: float = 0.0) -> None:
        """Measure up to now; the player has just been stopped again.

        Args:
            running_s: for how many seconds the player ran in all since `begin`.
            slept_s: for how many of them the referee slept.
        """
        if not self._spinners:
            return
        began_ns = self._began + running_s * 1e9
        while time.monotonic_ns() - began_ns < _LISTEN_S * 1e9:
            pass  # not a sleep, so that other work on this core shows
        now, found = time.monotonic_ns(), cpu_ns_of(self._spinners)
        needed_ns = (1 - MAX_OTHER_WORK) * (now - began_ns)
        # If the time since the last tick cannot make the run a quiet one, there is no need to wait for the next.
        if all(ns - before + _TICK_NS >= needed_ns for ns, before in zip(found, self._spun, strict=False)):
            counted = _next_ticks(self._spinners)
        else:
            counted = [(now, ns) for ns in found]
        # A player that leaves a core to its spinner within a window hides as much other work.
        lost = [1 - (ns - before) / (at - began_ns) for (at, ns), before in zip(counted, self._spun, strict=False)]
        if lost:
            self.share = max(0.0, *lost)
        if self._referee_spins:
            self.share = max(self.share, _lost_by_this_process(self._began + slept_s * 1e9, self._worked))


def listen(spinners: Collection[int]) -> float:
    """Other work on the cores at this moment, while there is no player: the share of the core that loses most."""
    began, worked = time.monotonic_ns(), time.process_time_ns()
    first = _next_ticks(spinners)
    while first and time.monotonic_ns() - began < _LISTEN_S * 1e9:
        pass
    last = _next_ticks(spinners)
    lost = (1 - (ns - before) / (at - start) for (start, before), (at, ns) in zip(first, last, strict=False))
    return max(0.0, _lost_by_this_process(began, worked), *lost) if last else 0.0


def _lost_by_this_process(began_ns: float, worked_ns: int) -> float:
    """The share of the time since then that this process, which did not sleep meanwhile, did not run."""
    return 1 - (time.process_time_ns() - worked_ns) / (time.monotonic_ns() - began_ns)


def _next_ticks(processes: Collection[int]) -> list[tuple[int, int]]:
    """For each process, the moment of the kernel's next tick on its core, and its CPU time then; both in nanoseconds.

    The kernel updates the CPU time of a running process at ticks.  If a process does not run, this returns its CPU time
    after waiting for one tick.  Returns nothing if the kernel does not show CPU times.
    """
    before = cpu_ns_of(processes)
    counted, began = dict[int, tuple[int, int]](), time.monotonic_ns()
    while True:
        now, found = time.monotonic_ns(), cpu_ns_of(processes)
        for number, (ns, old) in enumerate(zip(found, before, strict=False)):
            if ns != old or now - began > _TICK_NS:
                counted.setdefault(number, (now, ns))
        if len(counted) >= len(found):
            return [counted[number] for number in range(len(found))]


def cpu_ns_of(processes: Collection[int]) -> list[int]:
    """The CPU times of processes; none, and so no measurement, if the kernel does not show them or one has ended."""
    try:
        return [cpu_ns(pid) for pid in processes]
    except OSError:
        return []


def cpu_ns(pid: int) -> int:
    """The CPU time of a process, exact while it does not run; of a running one, as of the last tick, up to 10 ms ago.

    Raises OSError: the kernel does not show it.
    """
    return time.clock_gettime_ns(~pid << 3 | 2)  # the kernel's number for the CPU clock of a process
