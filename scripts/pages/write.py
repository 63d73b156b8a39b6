"""A folder that takes another's place when it is finished, and vanishes when it fails."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.errors import PullRankError

FORMAT = "pullrank-site"
"""Of `index.json`, by which a site of ours is known."""


def write_file(path: Path, content: str | bytes) -> None:
    with open(path, "wb") as file:
        file.write(content if isinstance(content, bytes) else content.encode("utf-8", "replace"))


@contextmanager
def swapped_in(out: Path) -> Iterator[Path]:
    """A new folder that takes the place of `out` when the block succeeds, and vanishes when it fails.

    Raises:
        PullRankError: `out` holds something that is no site of ours.
    """
    if out.exists() and not _is_ours(out):
        raise PullRankError(f"{out} holds files that are no PullRank site; remove them, or choose another folder")
    out.parent.mkdir(parents=True, exist_ok=True)
    workshop = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
    try:
        new = workshop / "new"
        new.mkdir()
        yield new
        _swap(new, out, workshop / "old")
    finally:
        shutil.rmtree(workshop, ignore_errors=True)


def _swap(new: Path, out: Path, old: Path) -> None:
    """Two renames: what is killed outright between them leaves no site at `out`, and the old one in the workshop."""
    try:
        if out.exists():
            out.rename(old)
        new.rename(out)
    except BaseException:
        # Whatever struck, Ctrl-C too: a site stands at `out`, the new one or the old.
        if old.exists() and not out.exists():
            old.rename(out)
        raise


def _is_ours(out: Path) -> bool:
    """Whether `out` may be replaced: an empty folder, or a site that we built."""
    if not out.is_dir():
        return False
    if not any(out.iterdir()):
        return True
    try:
        return bool(json.loads((out / "index.json").read_bytes())["format"] == FORMAT)
    except (OSError, ValueError, KeyError, TypeError):
        return False
