"""Measure other work on the players' cores.

OtherWork    what share of a core other work took during a run: so much that its times cannot be ranked?
Starvation   how long a player wanted to run while other programs did: its time limits do not count that
"""

from __future__ import annotations

import time
from collections.abc import Collection

_LISTEN_S = 0.01
"""The shortest time to measure: several turns of the kernel's scheduler, which are about 3 ms each.  Between short
windows alone, other work would go unnoticed: it has its turns within them."""
MAX_OTHER_WORK = 0.1
"""The share of a core that other work may take in a run.  On a quiet machine, no run of 112 had more than 0.02."""


class OtherWork:
    """Other work on the cores of the players and of the referee, from `begin` to the last `look`.

    A spinner of the lowest class runs on each of the players' cores (`inside/keep_cores_awake.py`).  While the player
    is stopped, its cores belong to the spinners.  CPU time that a spinner misses then went elsewhere: to another
    process, to the kernel, or to another virtual machine.  A stopped player cannot run, so it cannot take that time
    itself.  Only work that the kernel still does for it can.

    Args:
        spinners: the pids of the processes that keep the cores awake, one for each core; none if nothing does.
        referee_spins: whether the referee never sleeps meanwhile, so that CPU time that it misses went elsewhere, too.
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

    def look(self, running_s: float = 0.0) -> None:
        """Measure up to now; the player has just been stopped again, after it ran for `running_s` seconds in all."""
        if not self._spinners:
            return
        while (stopped_ns := self._since_ns() - running_s * 1e9) < _LISTEN_S * 1e9:
            pass  # not a sleep, so that other work on this core shows
        if spun := [now - before for now, before in zip(cpu_ns_of(self._spinners), self._spun, strict=False)]:
            # A player that leaves a core to its spinner within a window hides as much other work.
            self.share = max(0.0, 1 - min(spun) / stopped_ns)
        if self._referee_spins:
            self.share = max(self.share, 1 - (time.process_time_ns() - self._worked) / self._since_ns())

    def _since_ns(self) -> int:
        return time.monotonic_ns() - self._began


def listen(spinners: Collection[int]) -> float:
    """Other work on the cores at this moment, while there is no player: the share of the core that loses most."""
    other_work = OtherWork(spinners, referee_spins=True)
    other_work.begin()
    other_work.look()
    return other_work.share


def cpu_ns_of(processes: Collection[int]) -> list[int]:
    """The CPU times of processes; none, and so no measurement, if the kernel does not show them or one has ended."""
    try:
        return [cpu_ns(pid) for pid in processes]
    except OSError:
        return []


def cpu_ns(pid: int) -> int:
    """The CPU time of a process; exact, where /proc is a tick behind.  Raises OSError: the kernel does not show it."""
    return time.clock_gettime_ns(~pid << 3 | 2)  # the kernel's number for the CPU clock of a process
