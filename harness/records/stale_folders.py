"""Find temporary folders of killed processes.

A process that creates a folder claims it with a lock.  The kernel releases the lock when the process ends, for
whatever reason, so an unlocked folder is abandoned.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

if sys.platform != "win32":
    import fcntl

_YOUNG_S = 60.0
"""A folder is created first and claimed afterwards, so a younger one may not be claimed yet."""


def claim(folder: Path) -> int:
    """Lock a folder for as long as the returned descriptor stays open.

    Raises:
        OSError: it is already locked, or this is Windows, which locks no folders.
    """
    if sys.platform == "win32":
        raise OSError(errno.ENOTSUP, "Windows locks no folders", str(folder))
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def abandoned(folders: Iterable[Path]) -> Iterator[Path]:
    """Yield our own folders that no process holds any more; each is locked while the caller handles it."""
    for folder in folders if sys.platform != "win32" else ():
        with contextlib.suppress(OSError):
            facts = folder.lstat()
            if facts.st_uid != os.geteuid() or time.time() - facts.st_mtime < _YOUNG_S:
                continue
            descriptor = claim(folder)
            try:
                yield folder
            finally:
                os.close(descriptor)
