"""How long other programs keep a player from running: its time limits do not count that.

LostTime     of one player, in all of its waits
Starvation   one measurement
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from harness.processes.freezer import TICK_S, Freezer, cpu_times, stat_fields
from harness.processes.other_work import cpu_ns_of
from harness.records.errors import JudgeError

_STOLEN = "stolen"
"""In place of a pid: all other virtual machines."""
_LONGEST_S = 120.0
"""A player that has been kept from running for longer cannot be judged now."""


class LostTime:
    """The time that other programs have taken from one player, in the waits for it that were measured.

    Args:
        cores: those of the players.
        keeper: the first process of the player's pid namespace.
        yielding: processes of ours that may run on these cores, but yield to the player.
    """

    def __init__(self, cores: Collection[int], keeper: int, freezer: Freezer, yielding: Collection[int]) -> None:
        self._cores = cores
        self._keeper = keeper
        self._freezer = freezer
        self._yielding = yielding
        self._now: Starvation | None = None
        self._keepers = 0.0, 0.0
        """The CPU seconds of the keeper, in programs and in the kernel, when they were last read."""
        self.seconds = 0.0
        """The total over all waits that have ended."""

    def begin(self) -> None:
        """Begin to measure a wait, unless that has already begun."""
        if not self._now:
            self._now = Starvation(self._cores, self._processes(), self._yielding, self._find_cpu_s)

    def measure(self) -> float:
        """The seconds of the current wait so far; 0 before `begin`.

        Raises:
            JudgeError: the player has lost more time than can be waited for.
        """
        lost_s = self._now.seconds(self._processes()) if self._now else 0.0
        if self.seconds + lost_s > _LONGEST_S:
            raise JudgeError("other programs keep the players from running: judge again when this machine is less busy")
        return lost_s

    def end(self, lost_s: float | None = None) -> None:
        """End the wait.  `lost_s` is what was just measured, if it was."""
        self.seconds += self.measure() if lost_s is None else lost_s
        self._now = None

    def _processes(self) -> list[int]:
        return [self._keeper, *self._freezer.processes()]

    def _find_cpu_s(self) -> tuple[float, float] | None:
        """The CPU seconds of the player, if a cgroup counts them, and of the keeper, which collects what it prints."""
        of_group = self._freezer.find_cpu_s()
        if of_group is None:
            return None
        user_s, system_s = self._keepers = max(self._keepers, cpu_times(self._keeper)[:2])  # 0 if it has ended
        return of_group[0] + user_s, of_group[1] + user_s + system_s


class Starvation:
    """How long a player has been kept from running, since this was created.

    That is the share of its cores that other programs took, and at most the time for which its threads waited for a
    core.  While a player sleeps, it does not wait for a core, and threads that wait for each other leave no time to
    others.  The work of the kernel is not another program's, because it may be done for the player.

    The kernel counts the time of programs on a core in ticks.  A player could run at the ticks only, so that all time
    seems to be another program's.  So others took at most the time for which the core was not idle, which is exact.

    Without a cgroup, the time of children that the player never waits for is counted nowhere, so it seems to be another
    program's.  Then others took at most the time of those programs that still run, and last ran on these cores.

    Args:
        processes: all processes of the player now, the first process of its pid namespace included: that one inherits
            the CPU time of those that ended.
        ours: processes that may run on the players' cores but yield to the player.
        find_cpu_s: returns the CPU time of all processes of the player, also of those that ended without being waited
            for, without and with the kernel's; None if nothing counts it.
    """

    def __init__(
        self,
        cores: Collection[int],
        processes: Iterable[int],
        ours: Collection[int] = (),
        find_cpu_s: Callable[[], tuple[float, float] | None] = lambda: None,
    ) -> None:
        self._cores = cores
        self._ours = ours
        self._find_cpu_s = find_cpu_s
        self._others, self._waits = self._read(processes)
        self._running = self._read_running(processes) if find_cpu_s() is None else {}

    def seconds(self, processes: Iterable[int]) -> float:
        """The seconds so far; `processes` as for the constructor, but those of now."""
        others, waits = self._read(processes)
        waited = sum(max(0.0, wait - self._waits.get(thread, 0.0)) for thread, wait in waits.items())
        took = min(now - before for now, before in zip(others, self._others, strict=True))
        if self._find_cpu_s() is None:
            running = self._read_running(processes)
            here = (name for name in running if name == _STOLEN or _last_core(name) in self._cores)
            took = min(took, sum(running[name] - self._running.get(name, 0.0) for name in here))
        return max(0.0, min(took / len(self._cores), waited))

    def _read(self, processes: Iterable[int]) -> tuple[tuple[float, float], dict[str, float]]:
        """Other programs' CPU seconds since some fixed time, in two ways, and how long each thread has waited.

        By the programs that the kernel saw running, without its own work; and by the cores' idle time, with it.
        """
        pids = set(processes)
        user_s, all_s = self._find_cpu_s() or _sum_of(map(_cpu_s, pids))
        ours_s = sum(cpu_ns_of(self._ours)) / 1e9
        ran_s = _seconds_of_cores(self._cores, [_USER, _NICE, _STEAL])
        busy_s = time.monotonic() * len(self._cores) - _seconds_of_cores(self._cores, [_IDLE, _IO_WAIT])
        waits = dict(wait for pid in pids for wait in _waits_of(pid))
        return (ran_s - user_s - ours_s, busy_s - all_s - ours_s), waits

    def _read_running(self, processes: Iterable[int]) -> dict[str, float]:
        """The CPU seconds of other programs that run now, by pid, and of other virtual machines."""
        not_others = {str(pid) for pid in (os.getpid(), *self._ours, *processes)}
        others = [name for name in os.listdir("/proc") if name.isdigit() and name not in not_others]
        stolen_s = _seconds_of_cores(self._cores, [_STEAL])
        return {name: cpu_times(int(name))[0] for name in others} | {_STOLEN: stolen_s}


def _last_core(pid: str) -> int | None:
    """The core on which a process last ran; None if it has ended."""
    try:
        return int(stat_fields(int(pid))[36])
    except OSError:
        return None


_USER, _NICE, _IDLE, _IO_WAIT, _STEAL = 1, 2, 4, 5, 8
"""Columns of /proc/stat."""


def _seconds_of_cores(cores: Collection[int], columns: Collection[int]) -> float:
    """Seconds in these columns of these cores since the machine started."""
    names = {f"cpu{core}" for core in cores}
    lines = (line.split() for line in Path("/proc/stat").read_text().splitlines())
    return sum(int(words[column]) for words in lines if words[0] in names for column in columns) * TICK_S


def _cpu_s(pid: int) -> tuple[float, float]:
    """The CPU seconds of a process and of its children that have ended, without and with the kernel's."""
    user_s, system_s, childrens_user_s, childrens_system_s = cpu_times(pid)
    return user_s + childrens_user_s, user_s + system_s + childrens_user_s + childrens_system_s


def _sum_of(times: Iterable[tuple[float, float]]) -> tuple[float, float]:
    found = list(times)
    return sum(user_s for user_s, _ in found), sum(all_s for _, all_s in found)


def _waits_of(pid: int) -> Iterable[tuple[str, float]]:
    """For each thread of a process, its name and how many seconds it has been ready to run without a core."""
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            words = Path(f"/proc/{pid}/task/{thread}/schedstat").read_bytes().split()
            yield thread, int(words[1]) / 1e9
    except OSError:  # it has ended, or the kernel has no such counter
        return
