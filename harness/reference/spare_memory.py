"""Keep the referee's own memory within the machine's: an allocation that does not fit fails.

Otherwise the kernel would kill the referee, without a word.
"""

from __future__ import annotations

import re
import resource
from pathlib import Path
from types import TracebackType
from typing import Self

from harness.processes.watched_memory import USABLE_BYTES, Meminfo
from harness.records.errors import JudgeError

_SHARE = 0.9
"""The share of the available memory that the referee may allocate in a block."""
_TORCHS_ERROR = re.compile(r"\[enforce fail at .{,80}DefaultCPUAllocator: can't allocate memory", re.DOTALL)
_GIB = 2**30


class SpareMemory:
    """Within its blocks, which may be nested, this process can allocate no more than the machine has left.

    The limit of a block is what is available when the outermost one begins, not when the referee started: other
    programs, such as a second `task check`, may have taken memory in between.

    Raises:
        JudgeError: at the end of a block in which an allocation failed.
    """

    def __init__(self) -> None:
        self._depth = 0
        self._before = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)

    def __enter__(self) -> Self:
        if not self._depth:
            self._before = soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
            pages = int(Path("/proc/self/statm").read_text().split()[5])
            most = pages * resource.getpagesize() + int(_SHARE * Meminfo.read().available)
            most = most if soft == resource.RLIM_INFINITY else min(soft, most)
            resource.setrlimit(resource.RLIMIT_DATA, (most, hard))
        self._depth += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._depth -= 1
        if self._depth:
            return
        resource.setrlimit(resource.RLIMIT_DATA, self._before)
        if error and ran_out(error):
            raise too_large("the referee") from None


def ran_out(error: BaseException) -> bool:
    """Whether an allocation in the machine's memory failed."""
    return isinstance(error, MemoryError) or (type(error) is RuntimeError and bool(_TORCHS_ERROR.match(str(error))))


def too_large(who: str) -> JudgeError:
    """The error for a case that does not fit."""
    return JudgeError(
        f"{who} ran out of memory: inputs and output of a case may take a third of a machine's memory, and this one "
        f"has {USABLE_BYTES / _GIB:.3g} GiB; make the case smaller, or use a machine with more memory"
    )
