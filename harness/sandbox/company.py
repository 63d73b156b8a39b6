"""Measure how much of the players' cores other work takes during a run.

A spinner of the lowest class runs on each of the players' cores (`inside/keep_cores_awake.py`).  While the player is
stopped, its cores belong to the spinners.  CPU time that a spinner misses then went elsewhere: to another process, to
the kernel, or to another virtual machine.  A stopped player cannot run, so it cannot take that time itself.  Only work
that the kernel still does for it can.
"""

from __future__ import annotations

import time
from collections.abc import Collection

_LISTEN_S = 0.01
"""The shortest time to measure: several turns of the kernel's scheduler, which are about 3 ms each.  Between short
windows alone, company would go unnoticed: it has its turns within them."""


class Company:
    """Other work on the players' cores, from `begin` to the last `look`.

    Args:
        spinners: the pids of the processes that keep the cores awake, one for each core; none if nothing does.
    """

    def __init__(self, spinners: Collection[int]) -> None:
        # The kernel's number for the CPU clock of a process, which is exact; /proc is behind by a tick.
        self._clocks = [~pid << 3 | 2 for pid in spinners]
        self._began, self._spun = 0, list[int]()
        self.share = 0.0
        """The share of the time while the player was stopped, 0 to 1, of the core that lost most."""

    def begin(self) -> None:
        """Begin to measure; the player has just been stopped."""
        self._began, self._spun = time.monotonic_ns(), self._read()

    def look(self, running_s: float) -> None:
        """Measure up to now; the player has just been stopped again, after it ran for `running_s` seconds in all."""
        if not self._clocks:
            return
        stopped_ns = self._stopped_ns(running_s)
        if stopped_ns < _LISTEN_S * 1e9:
            time.sleep(_LISTEN_S - stopped_ns / 1e9)
            stopped_ns = self._stopped_ns(running_s)
        if spun := [now - before for now, before in zip(self._read(), self._spun, strict=False)]:
            # A player that leaves a core to its spinner within a window hides as much company.
            self.share = max(0.0, 1 - min(spun) / stopped_ns)

    def _stopped_ns(self, running_s: float) -> float:
        return time.monotonic_ns() - self._began - running_s * 1e9

    def _read(self) -> list[int]:
        """The spinners' CPU times; none, and so no measurement, if the kernel does not show them or one has ended."""
        try:
            return [time.clock_gettime_ns(clock) for clock in self._clocks]
        except OSError:
            return []
