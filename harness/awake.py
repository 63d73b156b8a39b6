"""Keep the players' cores from falling asleep between windows.

A core with nothing to do is halted, and on a virtual machine given to somebody else: waking it, and filling
its caches again, then costs the next window 100 µs or more.  So one process of the lowest priority (SCHED_IDLE)
spins on each of the players' cores.  A player takes the core from it at once, and it takes nothing from a player.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Collection, Iterator

_SPIN = """
import ctypes, os, signal, sys
judge, *cores = map(int, sys.argv[1:])
def die_with(parent):
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        os._exit(0)
die_with(judge)
os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
mother = os.getpid()
for core in cores[1:]:
    if os.fork() == 0:
        die_with(mother)
        break
else:
    core = cores[0]
os.sched_setaffinity(0, [core])
while True:
    pass
"""


@contextlib.contextmanager
def keep_awake(cores: Collection[int]) -> Iterator[None]:
    """Let none of these cores halt while the block runs."""
    command = [sys.executable, "-I", "-S", "-c", _SPIN, str(os.getpid()), *map(str, cores)]
    spinner = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(spinner.pid, signal.SIGKILL)
        spinner.wait()
