"""What was left behind by one that was killed, and how the next one tells it from what is in use.

A judge, and whoever builds a site, claims the folders that it makes: it locks them, and the lock ends with its process,
however that ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

_YOUNG_S = 60.0
"""A folder is made first and claimed then: so young a one may still be claimed."""


def claim(folder: Path) -> int:
    """Hold a folder as long as the descriptor that is returned stays open.  Raises OSError if it is held already."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def abandoned(folders: Iterable[Path]) -> Iterator[Path]:
    """Those of our folders that nobody holds any more; they are held while the caller looks at them."""
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
