"""Work that is spread over this machine's cores: one item after the other, results in the order of the items.

    spread(build_board, boards, processes)      the same as map(build_board, boards), sooner

Processes are forked, because what they work with (the site, and how it gets at the judged files) is no data that could
be sent to them.  Where they cannot be, everything is done in this one.
"""

from __future__ import annotations

import ctypes
import gc
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any, TypeVar

from harness.records.errors import PullRankError

T = TypeVar("T")
R = TypeVar("R")

MOST = 8
"""Processes.  Each holds the judgements of one board."""

WORTH_FORKING = 300
"""Judgements.  With fewer, a second process costs more than it saves."""

_PR_SET_PDEATHSIG = 1

_work: list[Callable[[Any], Any]] = []
"""What forked processes do: they find it here."""


def processes_for(judgements: int) -> int:
    """How many processes to spread so many judgements over.  One with threads is never forked: its locks might hang."""
    if judgements < WORTH_FORKING or threading.active_count() > 1:
        return 1
    if "fork" not in multiprocessing.get_all_start_methods():
        return 1
    return min(os.cpu_count() or 1, MOST)


def spread(
    work: Callable[[T], R], items: Sequence[T], processes: int, size: Callable[[T], Any] = lambda _: 1
) -> Iterator[R]:
    """What `work` makes of each item; the largest are begun first, so that no process is left alone with one.

    Raises:
        PullRankError: a process was ended from outside.
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
        raise PullRankError("a process that built pages was ended from outside; was there too little memory?") from None
    finally:
        _work.pop()


def _begin(parent: int) -> None:
    """Let a forked process end when it is told to, and with its parent, however that ends."""
    # The parent's own handler raises, and what is raised in a process of a pool is only handed on.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # It ended before the first line was reached.
        os._exit(1)


def _do(item: Any) -> Any:
    return _work[-1](item)


@contextmanager
def uncollected() -> Iterator[None]:
    """What is made in the block is none of the garbage collector's business: it would walk all of it in each round."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
