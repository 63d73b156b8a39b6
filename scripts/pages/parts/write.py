"""Build a folder next to another one, and replace that one when the build succeeds.

    ._site.build-x3k9q2ab/      the work folder, next to `_site`; claimed while its build runs
      new/                      the site being built
      old/                      the previous site, from the moment of the swap

The next build removes what a killed one left, or restores the old site from it.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.records.errors import PullRankError
from harness.records.stale_folders import abandoned, claim

FORMAT = "pullrank-site"
"""The format of `index.json`, which marks a folder as a PullRank site."""


def write_file(path: Path, content: str | bytes) -> None:
    try:
        with open(path, "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode("utf-8", "replace"))
    except OSError as error:
        # The error of a full disk does not name the file.
        raise OSError(error.errno, error.strerror, str(path)) from None


@contextmanager
def swapped_in(out: Path) -> Iterator[Path]:
    """A new folder that replaces `out` if the block succeeds, and is removed if it fails.

    If `out` is a symbolic link, its target is replaced and the link stays.

    Raises:
        PullRankError: `out` cannot be replaced, or the new folder cannot be written.
    """
    place = Path(os.path.realpath(out))
    workshops = place.parent / f".{place.name}.build-"
    try:
        _require_replaceable(place, out)
        place.parent.mkdir(parents=True, exist_ok=True)
        _clear_up(workshops, place)
        with _workshop(workshops) as workshop:
            new = workshop / "new"
            new.mkdir()
            yield new
            _swap(new, place, workshop / "old")
    except OSError as error:
        named = str(error.filename)
        if Path(named) not in (place, *place.parents) and not named.startswith(str(workshops)):
            raise
        state = "the old site is unchanged" if os.path.lexists(place) else "there is no site there yet"
        way_out = "free space or fix the permissions there, or choose another folder"
        raise PullRankError(f"{out}: the new site cannot be written: {error.strerror}; {state}; {way_out}") from None


def _require_replaceable(place: Path, out: Path) -> None:
    """Check that `out` is a PullRank site or does not exist, and that it can be moved."""
    if place.exists() and not _is_ours(place):
        raise PullRankError(f"{out} has files that are no PullRank site; remove them, or choose another folder")
    if Path.cwd().is_relative_to(place):
        raise PullRankError(
            f"{out} will be replaced, but it is the current folder; change to another one, or choose another folder"
        )
    if os.path.ismount(place):
        raise PullRankError(f"{out} is a mount point, which cannot be replaced; choose a folder in it: {out / 'site'}")


@contextmanager
def _workshop(workshops: Path) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix=workshops.name, dir=workshops.parent))
    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError):  # Some file systems have no locks; nothing is cleaned up there.
            held.callback(os.close, claim(folder))
        held.callback(shutil.rmtree, folder, ignore_errors=True)  # This runs before the lock is released.
        yield folder


def _clear_up(workshops: Path, out: Path) -> None:
    """Remove the folders of killed builds; a site that one of them had moved aside is restored first."""
    for folder in abandoned(workshops.parent.glob(f"{glob.escape(workshops.name)}*")):
        if not {path.name for path in folder.iterdir()} <= {"new", "old"}:
            continue  # No build made this folder.
        old = folder / "old"
        if old.exists() and not out.exists():
            old.rename(out)
        shutil.rmtree(folder, ignore_errors=True)


def _swap(new: Path, out: Path, old: Path) -> None:
    """Swap with two renames.  A build killed between them leaves the old site in the work folder, and none at `out`."""
    try:
        if out.exists():
            out.rename(old)
        new.rename(out)
    except BaseException:
        # After any failure, even Ctrl-C, `out` is a site: the new one or the old.
        if old.exists() and not out.exists():
            old.rename(out)
        raise


def _is_ours(out: Path) -> bool:
    """Whether `out` may be replaced: an empty folder or a PullRank site."""
    if not out.is_dir():
        return False
    if not any(out.iterdir()):
        return True
    try:
        return bool(json.loads((out / "index.json").read_bytes())["format"] == FORMAT)
    except (OSError, ValueError, KeyError, TypeError):
        return False
