"""A task that a pull request changes, read and never run: what `load_task` says of the files as they stand in the fork.

    head's tasks/  ──git objects──▶  a folder of plain files  ──load_task──▶  its faults, a line each

The tree is hostile: paths are checked part by part, sizes and numbers before any content is fetched, and links are
faults.  It is fetched by git, which costs nothing of the token's requests, and by the head's hash.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import TaskError
from harness.task import load_task
from scripts.git_command import Git
from scripts.text import shorten

MAX_FILES = 1000
MAX_BYTES = 8 * 1024 * 1024
"""Of all files in tasks/ together."""

_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,99}")


@dataclass(frozen=True, kw_only=True)
class _File:
    mode: str
    sha: str
    path: str


def find_task_faults(url: str, token: str | None, head_sha: str, tasks: Sequence[str]) -> str:
    """What is wrong with some tasks of a commit, a line for each fault; empty if they would load.

    Raises:
        GitError: the commit could not be fetched.
    """
    with tempfile.TemporaryDirectory(prefix="pullrank-tasks-") as folder:
        git = Git(Path(folder), url, token)
        git.run("init", "--quiet", "--template=")
        git.run("remote", "add", "origin", url)
        _fetch(git, "--depth=1", hashes=[head_sha])
        files = _list(git, head_sha)
        if faults := _faults_of_tree(files):
            return "\n".join(faults)
        # Contents only now: names and number are known to be harmless.
        _fetch(git, hashes=sorted({file.sha for file in files}))
        if _bytes_of(git, files) > MAX_BYTES:
            return f"tasks/: more than {MAX_BYTES // 2**20} MiB"
        root = Path(folder, "files")
        for file in files:
            place = root / file.path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(git.run("cat-file", "blob", file.sha))
        return _load(root, tasks)


def _fetch(git: Git, *options: str, hashes: Sequence[str]) -> None:
    fetch = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--filter=blob:none", *options)
    git.run("-c", "fetch.negotiationAlgorithm=noop", *fetch, "--stdin", "origin", stdin="\n".join(hashes).encode())


def _list(git: Git, head_sha: str) -> list[_File]:
    rows = git.run("ls-tree", "-r", "-z", "--full-tree", head_sha, "--", "tasks").decode("utf-8", "replace")
    found = [row.partition("\t") for row in rows.split("\0") if row]
    return [_File(mode=facts.split()[0], sha=facts.split()[2], path=path) for facts, _, path in found]


def _faults_of_tree(files: Sequence[_File]) -> list[str]:
    if len(files) > MAX_FILES:
        return [f"tasks/: more than {MAX_FILES} files"]
    return [f"{shorten(file.path, 200)}: {fault}" for file in files if (fault := _fault_of(file))][:20]


def _fault_of(file: _File) -> str:
    if file.mode not in ("100644", "100755"):
        return f"must be a plain file; its mode is {file.mode}"
    if not all(map(_PART.fullmatch, file.path.split("/"))):
        return "a path holds letters, digits, '_', '-', '+' and '.', and no part of it starts with '.'"
    return ""


def _bytes_of(git: Git, files: Sequence[_File]) -> int:
    asked = "\n".join(file.sha for file in files).encode()
    return sum(int(size) for size in git.run("cat-file", "--batch-check=%(objectsize)", stdin=asked).split())


def _load(root: Path, tasks: Sequence[str]) -> str:
    faults = []
    for name in tasks:
        folder = root / "tasks" / name
        # A folder that is gone, or that holds what tasks share, is no task.
        if not _PART.fullmatch(name) or not (folder / "task.yml").is_file():
            continue
        try:
            load_task(folder)
        except TaskError as error:
            faults.append(str(error).replace(f"{root.resolve()}/", "").replace(f"{root}/", ""))
    return "\n".join(faults)
