"""The repository's git half: a real bare repository in a folder, written to and read by git itself.

Forks share its objects, as they do on GitHub: a pull request's head is `refs/pull/<number>/head`.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

IDENTITY = {
    "GIT_AUTHOR_NAME": "Somebody",
    "GIT_AUTHOR_EMAIL": "somebody@users.noreply.github.com",
    "GIT_COMMITTER_NAME": "GitHub",
    "GIT_COMMITTER_EMAIL": "noreply@github.com",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
}
EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"

Content = bytes | str | None
"""Of a file; None deletes it."""


class GitError(Exception):
    """git refused; what it said."""


@dataclass(frozen=True)
class Entry:
    """A line of a tree."""

    path: str
    mode: str
    kind: str
    sha: str
    size: int | None


@dataclass(frozen=True)
class Change:
    """A line of a diff."""

    path: str
    status: str
    previous_path: str | None
    sha: str


class GitRepository:
    """A bare repository with an empty first commit on its default branch."""

    def __init__(self, path: Path, branch: str = "main") -> None:
        self.path = path
        path.mkdir(parents=True)
        self.git("init", "--quiet", "--bare", f"--initial-branch={branch}")
        for setting in ("http.receivepack", "uploadpack.allowFilter", "uploadpack.allowAnySHA1InWant"):
            self.git("config", setting, "true")
        self.git("config", "gc.auto", "0")
        self.set_ref(f"refs/heads/{branch}", self.commit_tree(self.line("mktree", stdin=b""), [], "Begin"))

    def git(self, *arguments: str, stdin: bytes | None = None, env: Mapping[str, str] | None = None) -> bytes:
        done = subprocess.run(
            ["git", "-c", "core.quotePath=false", *arguments],
            cwd=self.path,
            input=stdin or b"",
            capture_output=True,
            env={**os.environ, **IDENTITY, "GIT_DIR": str(self.path), **(env or {})},
            check=False,
        )
        if done.returncode:
            raise GitError(done.stderr.decode(errors="replace").strip() or f"git {arguments[0]} failed")
        return done.stdout

    def line(self, *arguments: str, stdin: bytes | None = None) -> str:
        return self.git(*arguments, stdin=stdin).decode().strip()

    def find_commit(self, name: str) -> str | None:
        """The commit that a name (branch, tag, hash) stands for."""
        return self._find(f"{name}^{{commit}}")

    def find_tree(self, name: str) -> str | None:
        """The tree of a commit, of `commit:folder`, or of a tree."""
        return self._find(name if ":" in name else f"{name}^{{tree}}", "tree")

    def _find(self, name: str, kind: str = "commit") -> str | None:
        try:
            sha = self.line("rev-parse", "--verify", "--quiet", "--end-of-options", name)
            return sha if self.line("cat-file", "-t", sha) == kind else None
        except GitError:
            return None

    def find_ref(self, ref: str) -> str | None:
        try:
            return self.line("rev-parse", "--verify", "--quiet", "--end-of-options", ref)
        except GitError:
            return None

    def set_ref(self, ref: str, sha: str) -> None:
        self.git("update-ref", ref, sha)

    def delete_ref(self, ref: str) -> None:
        self.git("update-ref", "-d", ref)

    def blob(self, sha: str) -> bytes | None:
        try:
            return self.git("cat-file", "blob", sha)
        except GitError:
            return None

    def add_blob(self, content: bytes) -> str:
        return self.line("hash-object", "-w", "--stdin", stdin=content)

    def entries(self, tree: str, *, recursive: bool = False) -> list[Entry]:
        options = ["-r", "-t"] if recursive else []
        lines = self.git("ls-tree", "-z", "-l", *options, tree).decode(errors="surrogateescape").split("\0")[:-1]
        found = []
        for line in lines:
            facts, path = line.split("\t", 1)
            mode, kind, sha, size = facts.split()
            found.append(Entry(path, mode, kind, sha, None if size == "-" else int(size)))
        return found

    def read(self, ref: str, path: str) -> bytes | None:
        """A file as it stands at a ref."""
        try:
            return self.git("cat-file", "blob", f"{ref}:{path}")
        except GitError:
            return None

    def files(self, ref: str) -> list[str]:
        tree = self.find_tree(ref)
        return [entry.path for entry in self.entries(tree, recursive=True) if entry.kind == "blob"] if tree else []

    def commit(
        self,
        files: Mapping[str, Content],
        *,
        parent: str | None,
        message: str = "Change",
        modes: Mapping[str, str] | None = None,
    ) -> str:
        """A commit that changes these files of its parent; no branch moves.  A mode of 120000 makes a link."""
        index = {"GIT_INDEX_FILE": str(self.path / f"index-{os.urandom(4).hex()}")}
        try:
            self.git("read-tree", *([parent] if parent else ["--empty"]), env=index)
            for path, content in files.items():
                self._stage(path, content, (modes or {}).get(path, "100644"), index)
            tree = self.git("write-tree", env=index).decode().strip()
        finally:
            Path(index["GIT_INDEX_FILE"]).unlink(missing_ok=True)
        return self.commit_tree(tree, [parent] if parent else [], message)

    def _stage(self, path: str, content: Content, mode: str, index: Mapping[str, str]) -> None:
        if content is None:
            line = f"0 {'0' * 40}\t{path}\0"
        else:
            sha = self.add_blob(content.encode() if isinstance(content, str) else content)
            line = f"{mode} {sha}\t{path}\0"
        self.git("update-index", "-z", "--add", "--index-info", stdin=line.encode(), env=index)

    def commit_tree(self, tree: str, parents: list[str], message: str) -> str:
        return self.line("commit-tree", tree, *(f"-p{parent}" for parent in parents), "-F", "-", stdin=message.encode())

    def message(self, commit: str) -> str:
        return self.line("log", "-1", "--format=%B", commit)

    def parents(self, commit: str) -> list[str]:
        return self.line("log", "-1", "--format=%P", commit).split()

    def merge_base(self, one: str, other: str) -> str | None:
        try:
            return self.line("merge-base", one, other)
        except GitError:
            return None

    def count_between(self, base: str, head: str) -> int:
        return int(self.line("rev-list", "--count", f"{base}..{head}"))

    def changes(self, base: str, head: str) -> list[Change]:
        """What the head changed since it parted from the base, as GitHub shows a pull request."""
        start = self.merge_base(base, head) or EMPTY_TREE
        parts = iter(self.git("diff-tree", "-r", "-z", "-M", start, head).decode(errors="surrogateescape").split("\0"))
        found = []
        for line in parts:
            if line:
                _, _, _, sha, status = line[1:].split()
                previous = next(parts) if status[0] in "RC" else None
                found.append(Change(next(parts), _STATUS[status[0]], previous, sha))
        return found

    def merge_trees(self, base: str, head: str) -> str | None:
        """The tree of both merged; None on a conflict."""
        try:
            return self.line("merge-tree", "--write-tree", base, head).splitlines()[0]
        except GitError:
            return None

    def is_ancestor(self, old: str, new: str) -> bool:
        return self.merge_base(old, new) == old


_STATUS = {"A": "added", "M": "modified", "D": "removed", "R": "renamed", "C": "copied", "T": "changed"}
