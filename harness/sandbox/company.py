"""Measure other work on the players' cores.

Company      what share of a core other work took during a run: so much that its times cannot be ranked?
Starvation   how long a player wanted to run while other programs did: its time limits do not count that
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable
from pathlib import Path

_LISTEN_S = 0.01
"""The shortest time to measure: several turns of the kernel's scheduler, which are about 3 ms each.  Between short
windows alone, company would go unnoticed: it has its turns within them."""
MAX_COMPANY = 0.1
"""The share of a core that other work may take in a run.  On a quiet machine, no run of 112 had more than 0.02."""
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


class Company:
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
        self._began, self._spun, self._worked = time.monotonic_ns(), _spun_ns(self._spinners), time.process_time_ns()

    def look(self, running_s: float = 0.0) -> None:
        """Measure up to now; the player has just been stopped again, after it ran for `running_s` seconds in all."""
        if not self._spinners:
            return
        while (stopped_ns := self._since_ns() - running_s * 1e9) < _LISTEN_S * 1e9:
            pass  # not a sleep, so that other work on this core shows
        if spun := [now - before for now, before in zip(_spun_ns(self._spinners), self._spun, strict=False)]:
            # A player that leaves a core to its spinner within a window hides as much company.
            self.share = max(0.0, 1 - min(spun) / stopped_ns)
        if self._referee_spins:
            self.share = max(self.share, 1 - (time.process_time_ns() - self._worked) / self._since_ns())

    def _since_ns(self) -> int:
        return time.monotonic_ns() - self._began


def listen(spinners: Collection[int]) -> float:
    """Other work on the cores at this moment, while there is no player: the share of the core that loses most."""
    company = Company(spinners, referee_spins=True)
    company.begin()
    company.look()
    return company.share


def _spun_ns(spinners: Collection[int]) -> list[int]:
    """The spinners' CPU times; none, and so no measurement, if the kernel does not show them or one has ended."""
    try:
        # The kernel's number for the CPU clock of a process, which is exact; /proc is behind by a tick.
        return [time.clock_gettime_ns(~pid << 3 | 2) for pid in spinners]
    except OSError:
        return []


class Starvation:
    """How long a player has been kept from running, since this was created.

    That is the share of its cores that other programs took, and at most the time for which its threads waited for a
    core.  A player can't raise both: while it sleeps, it does not wait for a core, and threads that wait for each other
    leave no time to others.  The work of the kernel is not another program's, because it may be done for the player.

    Args:
        processes: all processes of the player now, the first process of its pid namespace included: that one inherits
            the CPU time of those that ended.
        ours: processes that may run on the players' cores but yield to the player.
    """

    def __init__(self, cores: Collection[int], processes: Iterable[int], ours: Collection[int] = ()) -> None:
        self._cores = cores
        self._ours = ours
        self._others, self._waits = self._read(processes)

    def seconds(self, processes: Iterable[int]) -> float:
        """The seconds so far; `processes` as for the constructor, but those of now."""
        others, waits = self._read(processes)
        waited = sum(max(0.0, wait - self._waits.get(thread, 0.0)) for thread, wait in waits.items())
        return max(0.0, min((others - self._others) / len(self._cores), waited))

    def _read(self, processes: Iterable[int]) -> tuple[float, dict[str, float]]:
        """The CPU seconds of other programs since some fixed time, and the seconds that each thread has waited."""
        pids = set(processes)
        theirs = sum(map(_user_s, pids)) + sum(_spun_ns(self._ours)) / 1e9
        return _user_s_of_cores(self._cores) - theirs, dict(wait for pid in pids for wait in _waits_of(pid))


def _user_s_of_cores(cores: Collection[int]) -> float:
    """Seconds for which programs, or other virtual machines, have run on these cores since the machine started."""
    names = {f"cpu{core}" for core in cores}
    lines = (line.split() for line in Path("/proc/stat").read_text().splitlines())
    # user nice system idle iowait irq softirq steal
    return sum(int(word[1]) + int(word[2]) + int(word[8]) for word in lines if word[0] in names) * _TICK_S


def _user_s(pid: int) -> float:
    """The CPU seconds of a process and of its children that have ended, without the kernel's; 0 if it has ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return 0.0
    # The player chooses the name in parentheses, which may itself contain parentheses.
    words = stat[stat.rindex(b")") + 2 :].split()
    return (int(words[11]) + int(words[13])) * _TICK_S


def _waits_of(pid: int) -> Iterable[tuple[str, float]]:
    """For each thread of a process, its name and how many seconds it has been ready to run without a core."""
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            words = Path(f"/proc/{pid}/task/{thread}/schedstat").read_bytes().split()
            yield thread, int(words[1]) / 1e9
    except OSError:  # it has ended, or this kernel does not count
        return
