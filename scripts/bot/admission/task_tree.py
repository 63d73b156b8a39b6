"""Load the tasks that a pull request changes, without running them: what `load_task` says of the files in the fork.

    head's tasks/  ──git objects──▶  a folder of plain files  ──load_task──▶  its faults, a line each

The tree is untrusted: the number of paths and each part of them are checked before any content is fetched; files that
are too large are never sent; links are faults.  Everything is fetched by git, by hash, which uses no API requests.
"""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.records.errors import TaskError
from harness.task.task import Task, load_task
from harness.task.task_values import MAX_FILE_BYTES
from scripts.common.git_command import Git
from scripts.common.text import shorten
from scripts.github.fork import Fork, sizes_in

MAX_FILES = 1000
MAX_BYTES = 8 * 1024 * 1024
"""Of all files in tasks/ together."""

MAX_PATH = 400
_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,99}")


@dataclass(frozen=True, kw_only=True)
class TaskTree:
    """The tasks of a commit as plain files below `root`; or, in `faults`, why they were not written."""

    root: Path
    faults: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The folders that hold a task.yml."""
        return tuple(sorted(path.parent.name for path in self.root.glob("tasks/*/task.yml")))

    def load(self, name: str) -> Task:
        """Read one of the tasks.

        Raises:
            TaskError: its faults, with paths as in the commit.
        """
        try:
            return load_task(self.root / "tasks" / name)
        except TaskError as error:
            said = str(error).replace(f"{self.root.resolve()}/", "").replace(f"{self.root}/", "")
            raise TaskError(said) from None

    def find_faults(self, tasks: Iterable[str]) -> str:
        """The faults of some tasks, a line each; empty if they load."""
        faults = [*self.faults]
        # Removed folders and folders of shared files are not tasks.
        for name in (name for name in tasks if name in self.names):
            try:
                self.load(name)
            except TaskError as error:
                faults.append(str(error))
        return "\n".join(faults)


@dataclass(frozen=True, kw_only=True)
class _TreeFile:
    mode: str
    sha: str
    path: str


@contextlib.contextmanager
def open_tasks(fork: Fork, head_sha: str) -> Iterator[TaskTree]:
    """The tasks of a commit, until the block ends.

    Raises:
        GitError: the commit could not be fetched.
    """
    with tempfile.TemporaryDirectory(prefix="pullrank-tasks-") as folder:
        root = Path(folder)
        trees = fork.fetch("--depth=1", "--filter=blob:none", head_sha)
        files = _list(trees, head_sha)
        faults = _faults_of_tree(files)
        if files and not faults:
            # Fetch the folder, not each file by its hash, so that the server leaves out files that are too large.
            tasks = trees.run("rev-parse", "--verify", f"{head_sha}:tasks", offline=True).decode().strip()
            faults = _lay_out(fork.fetch(f"--filter=blob:limit={MAX_FILE_BYTES + 1}", tasks), files, root)
        yield TaskTree(root=root, faults=tuple(faults))


def _lay_out(git: Git, files: Sequence[_TreeFile], root: Path) -> list[str]:
    """Write the files, whose names and number were checked before; returns what is wrong with their sizes."""
    sizes = sizes_in(git)
    if missing := [file.path for file in files if file.sha not in sizes]:
        return [f"{path}: larger than {MAX_FILE_BYTES // 1024} KiB" for path in missing[:20]]
    if sum(sizes[file.sha] for file in files) > MAX_BYTES:
        return [f"tasks/: more than {MAX_BYTES // 2**20} MiB"]
    contents = git.read_blobs({file.sha for file in files})
    for file in files:
        place = root / file.path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(contents[file.sha])
    return []


def _list(git: Git, head_sha: str) -> list[_TreeFile]:
    rows = git.run("ls-tree", "-r", "-z", "--full-tree", head_sha, "--", "tasks", offline=True)
    found = [row.partition("\t") for row in rows.decode("utf-8", "replace").split("\0") if row]
    return [_TreeFile(mode=facts.split()[0], sha=facts.split()[2], path=path) for facts, _, path in found]


def _faults_of_tree(files: Sequence[_TreeFile]) -> list[str]:
    if len(files) > MAX_FILES:
        return [f"tasks/: more than {MAX_FILES} files"]
    return [f"{shorten(file.path, 200)}: {fault}" for file in files if (fault := _fault_of(file))][:20]


def _fault_of(file: _TreeFile) -> str:
    if file.mode not in ("100644", "100755"):
        return f"must be a plain file; its mode is {file.mode}"
    if len(file.path) > MAX_PATH:
        return f"a path may have at most {MAX_PATH} characters"
    if not all(map(_PART.fullmatch, file.path.split("/"))):
        return "a path may hold letters, digits, '_', '-', '+' and '.'; each part starts with a letter, a digit or '_'"
    return ""
