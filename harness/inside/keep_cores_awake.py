"""Keep the players' cores from going idle between windows.

The kernel halts an idle core, and a hypervisor then gives it to another virtual machine.  Waking it and refilling its
caches costs the next window 100 µs or more.  So a process of the lowest class (SCHED_IDLE) spins on each of the
players' cores.  A player preempts it at once, and it takes no time from a player as long as both are in one session:
Linux gives each session an equal share (sched_autogroup), regardless of class.
"""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Collection

_PR_SET_PDEATHSIG = 1
_MOST = 16
"""A player seldom uses more cores, and each takes a process."""
_LOOP = "while :; do :; done  # keeps a core awake for PullRank"


def keep_awake(cores: Collection[int]) -> None:
    """Keep the first of these cores from halting while this process lives."""
    parent = os.getpid()
    for core in sorted(cores)[:_MOST]:
        if os.fork() == 0:
            _spin(core, parent)


def _spin(core: int, parent: int) -> None:
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        os.sched_setaffinity(0, [core])
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        if os.getppid() == parent:  # the parent may have died before prctl took effect
            # A tiny program exits fast, even on a busy core, where this class gets a thousandth of the time.
            os.execv("/bin/sh", ["sh", "-c", _LOOP])  # noqa: S606
    finally:
        os._exit(0)
