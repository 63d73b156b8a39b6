"""Unpack an untrusted zip: check every member before writing the first byte.

It refuses names that lead out of the folder, links, encrypted or duplicate members, more files or bytes than a task
needs, and more than one task.  It does not trust the members' stated sizes, but counts bytes while unpacking.
"""

from __future__ import annotations

import lzma
import stat
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from harness.records.errors import TaskError

MAX_MEMBERS = 1000
MAX_BYTES = 32 * 1024 * 1024
"""The limit for all members together, unpacked."""

_CHUNK = 1 << 16
_RUBBISH = {"__MACOSX", ".DS_Store", "__pycache__"}
"""Files that packing programs leave in a zip."""


def unpack(path: Path, into: Path) -> None:
    """Write the members of the zip at `path` into the empty folder `into`.  Raises TaskError: its faults."""
    try:
        with zipfile.ZipFile(path) as archive:
            files = (info for info in archive.infolist() if not info.filename.endswith("/"))
            members = [info for info in files if not _RUBBISH & {*info.filename.split("/")}]
            if faults := list(_faults(members)):
                raise TaskError("\n".join(f"{path}: {fault}" for fault in faults[:20]))
            left = MAX_BYTES
            for info in members:
                left -= _write(archive, info, into / info.filename, left)
                if left < 0:
                    limit = f"{MAX_BYTES // 2**20} MiB"
                    raise TaskError(f"{path}: more than {limit} unpacked; a task contains only source code")
    except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, NotImplementedError, EOFError, ValueError) as error:
        raise TaskError(f"{path}: not a readable zip: {error}") from None
    except OSError as error:  # omit the path: it is in a temporary folder
        raise TaskError(f"{path}: cannot be unpacked: {error.strerror or error}") from None


def _faults(members: list[zipfile.ZipInfo]) -> Iterator[str]:
    if len(members) > MAX_MEMBERS:
        yield f"{len(members)} files; at most {MAX_MEMBERS}"
        return
    seen: set[str] = set()
    folders = {_same(parent) for info in members for parent in PurePosixPath(info.filename).parents}
    for info in members:
        if fault := _fault_of(info, seen, folders):
            yield f"{info.filename[:200]!r} {fault}"
        seen.add(_same(info.filename))
    tasks = sorted({info.filename[:200] for info in members if PurePosixPath(info.filename).name == "task.yml"})
    if len(tasks) > 1:
        yield f"{len(tasks)} tasks: {', '.join(map(repr, tasks[:20]))}; pack one, or unpack them and import each"
    elif not tasks:
        yield "no task.yml"


def _fault_of(info: zipfile.ZipInfo, seen: set[str], folders: set[str]) -> str:
    name = PurePosixPath(info.filename)
    if name.is_absolute() or ".." in name.parts or "\\" in info.filename or ":" in info.filename.partition("/")[0]:
        return "leads out of the zip"
    if stat.S_ISLNK(info.external_attr >> 16):
        return "is a link; put the file itself into the zip"
    if not info.filename.isprintable() or len(info.filename.encode()) > 200 or not 1 <= len(name.parts) <= 10:
        return "is not a valid name for a task's file"
    if info.flag_bits & 0x1:
        return "is encrypted"
    if _same(info.filename) in folders:
        return "is a file and a folder at once"
    return "appears twice" if _same(info.filename) in seen else ""


def _same(name: str | PurePosixPath) -> str:
    """Equal for two names that are the same file on some file system."""
    return str(PurePosixPath(name)).casefold()


def _write(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path, most: int) -> int:
    """Unpack one member, up to a little more than `most` bytes; return how many."""
    path.parent.mkdir(parents=True, exist_ok=True)
    count = 0
    with archive.open(info) as source, path.open("wb") as target:
        while count <= most and (chunk := source.read(_CHUNK)):
            count += target.write(chunk)
    return count
