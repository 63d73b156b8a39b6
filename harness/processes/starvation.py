"""How long other programs keep a player from running: its time limits do not count that.

LostTime     of one player, in all of its waits
Starvation   one measurement
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from harness.processes.freezer import TICK_S, Freezer, cpu_times
from harness.processes.other_work import cpu_ns_of
from harness.records.errors import JudgeError

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
        self.seconds = 0.0
        """The total over all waits that have ended."""

    def begin(self) -> None:
        """Begin to measure a wait, unless that has already begun."""
        if not self._now:
            self._now = Starvation(self._cores, self._processes(), self._yielding, self._freezer.find_user_s)

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


class Starvation:
    """How long a player has been kept from running, since this was created.

    That is the share of its cores that other programs took, and at most the time for which its threads waited for a
    core.  A player can't raise both: while it sleeps, it does not wait for a core, and threads that wait for each other
    leave no time to others.  The work of the kernel is not another program's, because it may be done for the player.

    Without a cgroup, the time of children that the player never waits for is counted nowhere, so it seems to be another
    program's.  Then other programs took at most the time of those that still run.

    Args:
        processes: all processes of the player now, the first process of its pid namespace included: that one inherits
            the CPU time of those that ended.
        ours: processes that may run on the players' cores but yield to the player.
        find_user_s: returns the CPU time of all processes of the player, also of those that ended without being
            waited for; None if nothing counts it.
    """

    def __init__(
        self,
        cores: Collection[int],
        processes: Iterable[int],
        ours: Collection[int] = (),
        find_user_s: Callable[[], float | None] = lambda: None,
    ) -> None:
        self._cores = cores
        self._ours = ours
        self._find_user_s = find_user_s
        self._others, self._waits = self._read(processes)
        self._running = self._read_running(processes)

    def seconds(self, processes: Iterable[int]) -> float:
        """The seconds so far; `processes` as for the constructor, but those of now."""
        others, waits = self._read(processes)
        waited = sum(max(0.0, wait - self._waits.get(thread, 0.0)) for thread, wait in waits.items())
        took = others - self._others
        if self._find_user_s() is None:
            now = self._read_running(processes)
            took = min(took, sum(seconds - self._running.get(name, 0.0) for name, seconds in now.items()))
        return max(0.0, min(took / len(self._cores), waited))

    def _read(self, processes: Iterable[int]) -> tuple[float, dict[str, float]]:
        """The CPU seconds of other programs since some fixed time, and the seconds that each thread has waited."""
        pids = set(processes)
        theirs = self._find_user_s()
        theirs = sum(map(_user_s, pids)) if theirs is None else theirs
        theirs += sum(cpu_ns_of(self._ours)) / 1e9
        run_s = _seconds_of_cores(self._cores, [_USER, _NICE, _STEAL])
        return run_s - theirs, dict(wait for pid in pids for wait in _waits_of(pid))

    def _read_running(self, processes: Iterable[int]) -> dict[str, float]:
        """The CPU seconds of other programs that run now, by pid, and of other virtual machines."""
        not_others = {str(pid) for pid in (os.getpid(), *self._ours, *processes)}
        others = [name for name in os.listdir("/proc") if name.isdigit() and name not in not_others]
        stolen_s = _seconds_of_cores(self._cores, [_STEAL])
        return {name: cpu_times(int(name))[0] for name in others} | {"stolen": stolen_s}


_USER, _NICE, _STEAL = 1, 2, 8
"""Columns of /proc/stat."""


def _seconds_of_cores(cores: Collection[int], columns: Collection[int]) -> float:
    """Seconds in these columns of these cores since the machine started."""
    names = {f"cpu{core}" for core in cores}
    lines = (line.split() for line in Path("/proc/stat").read_text().splitlines())
    return sum(int(words[column]) for words in lines if words[0] in names for column in columns) * TICK_S


def _user_s(pid: int) -> float:
    """The CPU seconds of a process and of its children that have ended, without the kernel's."""
    user_s, _, childrens_s, _ = cpu_times(pid)
    return user_s + childrens_s


def _waits_of(pid: int) -> Iterable[tuple[str, float]]:
    """For each thread of a process, its name and how many seconds it has been ready to run without a core."""
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            words = Path(f"/proc/{pid}/task/{thread}/schedstat").read_bytes().split()
            yield thread, int(words[1]) / 1e9
    except OSError:  # it has ended, or the kernel has no such counter
        return
