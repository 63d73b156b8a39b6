"""Keep the players' cores from falling asleep between windows.

A core with nothing to do is halted, and on a virtual machine given to somebody else: waking it, and filling
its caches again, then costs the next window 100 µs or more.  So one process of the lowest class (SCHED_IDLE)
spins on each of the players' cores.  A player takes the core from it at once, and it takes nothing from a player,
as long as both are in one session: Linux gives each session an equal share (sched_autogroup), whatever its class.
"""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Collection

_PR_SET_PDEATHSIG = 1
_LOOP = "while :; do :; done  # keeps a core awake for PullRank"


def keep_awake(cores: Collection[int]) -> None:
    """Let none of these cores halt while this process lives."""
    parent = os.getpid()
    for core in cores:
        if os.fork() == 0:
            _spin(core, parent)


def _spin(core: int, parent: int) -> None:
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        os.sched_setaffinity(0, [core])
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        if os.getppid() == parent:  # it may have died before the first line was reached
            # A program as small as can be: of a core that others keep busy it gets a thousandth, also for its end.
            os.execv("/bin/sh", ["sh", "-c", _LOOP])  # noqa: S606
    finally:
        os._exit(0)
