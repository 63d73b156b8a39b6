"""Find temporary folders of killed processes.

A process that creates a folder claims it with a lock.  The kernel releases the lock when the process ends, for
whatever reason, so an unlocked folder is abandoned.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

_YOUNG_S = 60.0
"""A folder is created first and claimed afterwards, so a younger one may not be claimed yet."""


def claim(folder: Path) -> int:
    """Lock a folder for as long as the returned descriptor stays open.  Raises OSError if it is already locked."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def abandoned(folders: Iterable[Path]) -> Iterator[Path]:
    """Yield our own folders that no process holds any more; each is locked while the caller handles it."""
    for folder in folders:
        with contextlib.suppress(OSError):
            facts = folder.lstat()
            if facts.st_uid != os.geteuid() or time.time() - facts.st_mtime < _YOUNG_S:
                continue
            descriptor = claim(folder)
            try:
                yield folder
            finally:
                os.close(descriptor)
