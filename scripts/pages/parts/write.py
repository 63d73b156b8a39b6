"""A folder that takes another's place when it is finished, and vanishes when it fails.

    ._site.build-x3k9q2ab/      the workshop, beside `_site`; claimed as long as its build lives
      new/                      the site that is being built
      old/                      the site before, from the moment of the swap

What a killed build has left there, the next one removes, or puts back.
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
"""Of `index.json`, by which a site of ours is known."""


def write_file(path: Path, content: str | bytes) -> None:
    try:
        with open(path, "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode("utf-8", "replace"))
    except OSError as error:
        # A disk that is full does not say where.
        raise OSError(error.errno, error.strerror, str(path)) from None


@contextmanager
def swapped_in(out: Path) -> Iterator[Path]:
    """A new folder that takes the place of `out` when the block succeeds, and vanishes when it fails.

    Where `out` is a link, the link stays, and what it leads to is replaced.

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
        stands = "the site there stands as it was" if os.path.lexists(place) else "there is no site there yet"
        way_out = "make room and rights there, or choose another folder"
        raise PullRankError(f"{out}: the new site cannot be put there: {error.strerror}; {stands}; {way_out}") from None


def _require_replaceable(place: Path, out: Path) -> None:
    """See that the folder that `out` leads to is a site of ours, or none, and can be moved."""
    if place.exists() and not _is_ours(place):
        raise PullRankError(f"{out} holds files that are no PullRank site; remove them, or choose another folder")
    if Path.cwd().is_relative_to(place):
        raise PullRankError(f"{out} is replaced whole, and you stand in it; go elsewhere, or choose another folder")
    if os.path.ismount(place):
        raise PullRankError(f"{out} is a mount point, which cannot be replaced; choose a folder in it: {out / 'site'}")


@contextmanager
def _workshop(workshops: Path) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix=workshops.name, dir=workshops.parent))
    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError):  # There are file systems without locks: nothing is cleared up there.
            held.callback(os.close, claim(folder))
        held.callback(shutil.rmtree, folder, ignore_errors=True)  # Before it is let go of.
        yield folder


def _clear_up(workshops: Path, out: Path) -> None:
    """Remove what killed builds have left, but for the site that one of them had moved aside when it was killed."""
    for folder in abandoned(workshops.parent.glob(f"{glob.escape(workshops.name)}*")):
        if not {path.name for path in folder.iterdir()} <= {"new", "old"}:
            continue  # Whatever it is, no build has made it.
        old = folder / "old"
        if old.exists() and not out.exists():
            old.rename(out)
        shutil.rmtree(folder, ignore_errors=True)


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
