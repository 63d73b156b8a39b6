"""Keep the referee's own memory within the machine's: an allocation that does not fit fails.

Otherwise the kernel would kill the referee, without a word.

    at the beginning    an allocation of more than what is available fails
    while it computes   once almost nothing is available, because others take memory, too, every allocation fails
"""

from __future__ import annotations

import re
import resource
import signal
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from harness.processes.watched_memory import USABLE_BYTES, Meminfo
from harness.records.errors import MemoryShortage

_SHARE = 0.9
"""The share of the available memory that the referee may allocate in a block."""
_LAST_BYTES = max(2**27, USABLE_BYTES // 50)
"""With less available on the machine, nothing more is allocated.  Players end earlier, on all but small machines."""
_LOOK_S = 0.005
"""How long this process computes from one look to the next, in seconds: it can fill about 20 MB in that time."""
_TORCHS_ERROR = re.compile(r"\[enforce fail at .{,80}DefaultCPUAllocator: can't allocate memory", re.DOTALL)
_GIB = 2**30
_RULE = (
    "inputs and output of a case may take a third of a machine's memory, and this one has "
    f"{USABLE_BYTES / _GIB:.3g} GiB; make the case smaller, or use a machine with more memory"
)


class SpareMemory:
    """Within its blocks, which may be nested, this process can allocate no more than the machine has left.

    The limit of a block is what is available when the outermost one begins, not when the referee started: other
    programs, such as a second `task check`, may have taken memory in between.  They may also take it during the block.

    Args:
        has_limit: whether the limit holds from the beginning of a block.  A GPU's driver may reserve more than that.

    Raises:
        MemoryShortage: at the end of a block in which an allocation failed.
    """

    def __init__(self, *, has_limit: bool = True) -> None:
        self._has_limit = has_limit
        self._depth = 0
        self._before = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)

    def __enter__(self) -> Self:
        if not self._depth:
            self._before = resource.getrlimit(resource.RLIMIT_DATA)
            if self._has_limit:
                self._allow(int(_SHARE * Meminfo.read().available))
            if threading.current_thread() is threading.main_thread():
                # It stays: by default, a late signal would kill the process.
                signal.signal(signal.SIGPROF, self._look)
                signal.siginterrupt(signal.SIGPROF, False)
                signal.setitimer(signal.ITIMER_PROF, _LOOK_S, _LOOK_S)
        self._depth += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._depth -= 1
        if self._depth:
            return
        if threading.current_thread() is threading.main_thread():
            signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_DATA, self._before)
        if error and ran_out(error):
            raise too_large("the referee") from None

    def _look(self, *_: object) -> None:
        if self._depth and Meminfo.read().available < _LAST_BYTES:
            self._allow(0)

    def _allow(self, more_bytes: int) -> None:
        """Let this process allocate so much more, within the limit that it had before."""
        soft, hard = self._before
        pages = int(Path("/proc/self/statm").read_text().split()[5])
        most = pages * resource.getpagesize() + more_bytes
        resource.setrlimit(resource.RLIMIT_DATA, (most if soft == resource.RLIM_INFINITY else min(soft, most), hard))


def ran_out(error: BaseException) -> bool:
    """Whether an allocation in the machine's memory failed."""
    return isinstance(error, MemoryError) or (type(error) is RuntimeError and bool(_TORCHS_ERROR.match(str(error))))


def too_large(who: str) -> MemoryShortage:
    """The error for a case that did not fit."""
    return MemoryShortage(f"{who} ran out of memory: {_RULE}")


def find_shortage(needed_bytes: int) -> MemoryShortage | None:
    """The error for a case that needs more than a block may allocate now; None if it may fit."""
    if needed_bytes <= _SHARE * Meminfo.read().available:
        return None
    return MemoryShortage(f"its inputs and answer do not fit into the memory that is left: {_RULE}")
