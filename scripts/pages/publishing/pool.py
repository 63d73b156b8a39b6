"""Spread work over this machine's cores; the results keep the order of the items.

    spread(build_board, boards, processes)      the same as map(build_board, boards), but parallel

Processes are forked: the work uses the site and a function that reads the judged files, which cannot be pickled.  Where
forking is not possible, this process does all the work.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

from harness.records.errors import PullRankError

T = TypeVar("T")
R = TypeVar("R")

MOST = 8
"""Upper limit of processes.  Each holds the judgements of one board."""

WORTH_FORKING = 300
"""Minimum number of judgements; with fewer, a second process costs more than it saves."""

_PR_SET_PDEATHSIG = 1

_work: list[Callable[[Any], Any]] = []
"""The function that forked processes run; they inherit it here."""


def processes_for(judgements: int) -> int:
    """How many processes to use.  A process with threads is never forked: the child's locks might deadlock."""
    if judgements < WORTH_FORKING or threading.active_count() > 1:
        return 1
    if "fork" not in multiprocessing.get_all_start_methods():
        return 1
    return min(os.cpu_count() or 1, MOST)


def spread(
    work: Callable[[T], R], items: Sequence[T], processes: int, size: Callable[[T], Any] = lambda _: 1
) -> Iterator[R]:
    """The results of `work` for each item; the largest items start first, so that none runs alone at the end.

    Raises:
        PullRankError: a process was killed.
    """
    if processes == 1 or len(items) < 2:
        yield from map(work, items)
        return
    _work.append(work)
    try:
        forking = multiprocessing.get_context("fork")
        with ProcessPoolExecutor(processes, forking, initializer=_begin, initargs=(os.getpid(),)) as pool:
            order = sorted(range(len(items)), key=lambda index: size(items[index]), reverse=True)
            found = dict(zip(order, pool.map(_do, [items[index] for index in order]), strict=True))
        yield from (found[index] for index in range(len(items)))
    except BrokenProcessPool:
        raise PullRankError("a process that built pages was killed; was there too little memory?") from None
    finally:
        _work.pop()


def _begin(parent: int) -> None:
    """Make a forked process end on SIGTERM, and with its parent, however that ends."""
    # The parent's handler raises, and a pool only passes on what its processes raise.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # The parent ended before prctl.
        os._exit(1)


def _do(item: Any) -> Any:
    return _work[-1](item)
