"""Reads and writes git's objects and refs as files, without starting git.

    objects/ab/cdef…     zlib of `blob 5\\0hello`, named for its SHA-1
    refs/heads/main      a commit's hash and a line break, written to `main.lock` first

This handles loose objects and loose refs only.  For all others (in packs, in `packed-refs`) the caller asks git.
"""

from __future__ import annotations

import hashlib
import os
import re
import zlib
from collections.abc import Mapping
from pathlib import Path

SHA = re.compile(r"[0-9a-f]{40}")
FOLDER = "40000"
LINK = "120000"
EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"

_PLAIN_REF = re.compile(r"refs(/[A-Za-z0-9_+@-][A-Za-z0-9_+@.-]*)+")

Node = tuple[str, str]
"""A mode as in a tree, and a hash."""


class Objects:
    """The objects of a bare repository in a folder, by their hashes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "objects"
        self._known: dict[str, tuple[str, bytes]] = {EMPTY_TREE: ("tree", b"")}

    def find(self, sha: str) -> tuple[str, bytes] | None:
        """The kind and the content of a loose object."""
        if sha not in self._known:
            try:
                raw = zlib.decompress(self._path(sha).read_bytes())
            except FileNotFoundError:
                return None
            head, _, content = raw.partition(b"\0")
            self._known[sha] = (head.split()[0].decode(), content)
        return self._known[sha]

    def keep(self, sha: str, kind: str, content: bytes) -> None:
        """Remember an object that git has read."""
        self._known[sha] = (kind, content)

    def has_packs(self) -> bool:
        return any(name.endswith(".pack") for name in os.listdir(self._folder / "pack"))

    def add(self, kind: str, content: bytes) -> str:
        raw = b"%s %d\0%s" % (kind.encode(), len(content), content)
        sha = hashlib.sha1(raw, usedforsecurity=False).hexdigest()
        path = self._path(sha)
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            # Under another name until it is complete: git may look for it at any moment.
            beginning = path.with_name(f"tmp_obj_{os.urandom(6).hex()}")
            beginning.write_bytes(zlib.compress(raw, 1))
            beginning.rename(path)
        self._known[sha] = (kind, content)
        return sha

    def _path(self, sha: str) -> Path:
        return self._folder / sha[:2] / sha[2:]


def read_tree(content: bytes) -> dict[str, Node]:
    """A tree's entries by name, in git's order."""
    found, at = {}, 0
    while at < len(content):
        end = content.index(b"\0", at)
        mode, _, name = content[at:end].partition(b" ")
        at = end + 21
        found[name.decode(errors="surrogateescape")] = (mode.decode(), content[end + 1 : at].hex())
    return found


def write_tree(nodes: Mapping[str, Node]) -> bytes:
    """A tree's content; git sorts a folder as if its name ended with a slash."""

    def key(name: str) -> bytes:
        return os.fsencode(name) + (b"/" if nodes[name][0] == FOLDER else b"")

    return b"".join(
        b"%s %s\0%s" % (nodes[name][0].encode(), os.fsencode(name), bytes.fromhex(nodes[name][1]))
        for name in sorted(nodes, key=key)
    )


def read_ref(folder: Path, ref: str) -> str | None:
    """The hash in a loose ref."""
    if not is_plain_ref(ref):
        return None
    try:
        text = (folder / ref).read_text().strip()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
    return text if SHA.fullmatch(text) else None


def write_ref(folder: Path, ref: str, sha: str) -> bool:
    """Set a ref as git does; False if its lock is held, or another ref's name is in the way."""
    path, lock = folder / ref, folder / f"{ref}.lock"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    except (FileExistsError, NotADirectoryError, FileNotFoundError):
        return False
    os.write(file, f"{sha}\n".encode())
    os.close(file)
    try:
        lock.rename(path)
    except OSError:
        lock.unlink()
        return False
    return True


def is_plain_ref(ref: str) -> bool:
    """Whether a ref's name is valid by a simple pattern; git checks all others."""
    is_plain = _PLAIN_REF.fullmatch(ref) is not None and ".." not in ref
    return is_plain and not any(part.endswith((".lock", ".")) for part in ref.split("/"))
