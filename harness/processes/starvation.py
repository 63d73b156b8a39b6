"""How long other programs keep a player from running: its time limits do not count that.

LostTime     of one player, in all of its waits
Starvation   one measurement
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from harness.processes import cgroup
from harness.processes.freezer import TICK_S, Freezer, cpu_times
from harness.processes.other_work import cpu_ns_of
from harness.records.errors import JudgeError

_LONGEST_S = 120.0
"""A player that has been kept from running for longer cannot be judged now."""
_MANY_STARTED = 100
"""If the whole machine starts more processes than this during a wait, some may be short-lived ones of the player, whose
CPU time only a cgroup counts.  Without one, the player's limits then count all time."""


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
        self._started = 0
        self.seconds = 0.0
        """The total over all waits that have ended."""

    def begin(self) -> None:
        """Begin to measure a wait, unless that has already begun."""
        if not self._now:
            self._started = _count_started()
            self._now = Starvation(self._cores, self._processes(), self._yielding, self._freezer.find_user_s)

    def measure(self) -> float:
        """The seconds of the current wait so far; 0 before `begin`.

        Raises:
            JudgeError: the player has lost more time than can be waited for.
        """
        lost_s = self._now.seconds(self._processes()) if self._now and not self._may_lose_children() else 0.0
        if self.seconds + lost_s > _LONGEST_S:
            raise JudgeError("other programs keep the players from running: judge again when this machine is less busy")
        return lost_s

    def end(self, lost_s: float | None = None) -> None:
        """End the wait.  `lost_s` is what was just measured, if it was."""
        self.seconds += self.measure() if lost_s is None else lost_s
        self._now = None

    def _may_lose_children(self) -> bool:
        """Whether CPU time of some of the player's processes may be lost, as they ended without being waited for."""
        return self._freezer.find_user_s() is None and _count_started() - self._started > _MANY_STARTED

    def _processes(self) -> list[int]:
        return [self._keeper, *self._freezer.processes()]


def _count_started() -> int:
    """How many processes and threads have been started on this machine, by anybody."""
    return cgroup.count_events(Path("/proc/stat").read_bytes(), "processes")


class Starvation:
    """How long a player has been kept from running, since this was created.

    That is the share of its cores that other programs took, and at most the time for which its threads waited for a
    core.  A player can't raise both: while it sleeps, it does not wait for a core, and threads that wait for each other
    leave no time to others.  The work of the kernel is not another program's, because it may be done for the player.

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

    def seconds(self, processes: Iterable[int]) -> float:
        """The seconds so far; `processes` as for the constructor, but those of now."""
        others, waits = self._read(processes)
        waited = sum(max(0.0, wait - self._waits.get(thread, 0.0)) for thread, wait in waits.items())
        return max(0.0, min((others - self._others) / len(self._cores), waited))

    def _read(self, processes: Iterable[int]) -> tuple[float, dict[str, float]]:
        """The CPU seconds of other programs since some fixed time, and the seconds that each thread has waited."""
        pids = set(processes)
        theirs = self._find_user_s()
        theirs = sum(map(_user_s, pids)) if theirs is None else theirs
        theirs += sum(cpu_ns_of(self._ours)) / 1e9
        return _user_s_of_cores(self._cores) - theirs, dict(wait for pid in pids for wait in _waits_of(pid))


def _user_s_of_cores(cores: Collection[int]) -> float:
    """Seconds for which programs, or other virtual machines, have run on these cores since the machine started."""
    names = {f"cpu{core}" for core in cores}
    lines = (line.split() for line in Path("/proc/stat").read_text().splitlines())
    # user nice system idle iowait irq softirq steal
    return sum(int(word[1]) + int(word[2]) + int(word[8]) for word in lines if word[0] in names) * TICK_S


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
