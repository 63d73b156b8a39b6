"""The git side of the repository: a real bare repository in a folder, which git itself serves to clients.

Forks share its objects, as they do on GitHub: a pull request's head is `refs/pull/<number>/head`.

Most operations of a `World` are done here, on git's own files (`objects.py`), because starting git for each would take
most of a test's time.  For unusual cases (packs, renames, merges of the same files) git itself does the work; a test
compares both ways.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.github_server.objects import (
    EMPTY_TREE,
    FOLDER,
    LINK,
    SHA,
    Node,
    Objects,
    is_plain_ref,
    read_ref,
    read_tree,
    write_ref,
    write_tree,
)

AUTHOR = "Somebody <somebody@users.noreply.github.com>"
COMMITTER = "GitHub <noreply@github.com>"
IDENTITY = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
}
SETTINGS = {
    "http.receivepack": "true",
    "uploadpack.allowFilter": "true",
    "uploadpack.allowAnySHA1InWant": "true",
    "gc.auto": "0",
    "pack.threads": "1",
    "receive.autogc": "false",
    # Pushed objects stay loose, however many.
    "receive.unpackLimit": "1000000",
}

Content = bytes | str | None
"""The content of a file; None deletes it."""

Paths = dict[str, Node]
"""The files of a tree, by path from its root."""


class GitError(Exception):
    """git failed, with its message."""


@dataclass(frozen=True)
class Entry:
    """An entry of a tree."""

    path: str
    mode: str
    kind: str
    sha: str
    size: int | None


@dataclass(frozen=True)
class Change:
    """An entry of a diff."""

    path: str
    status: str
    previous_path: str | None
    sha: str


@cache
def _template(branch: str) -> Path:
    """A repository made by git, to be copied."""
    folder = tempfile.mkdtemp(prefix="github-server-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = Path(folder, "template.git")
    options = ("--quiet", "--bare", "--template=", f"--initial-branch={branch}")
    subprocess.run(["git", "init", *options, str(path)], env=os.environ | IDENTITY, check=True)
    for name, value in SETTINGS.items():
        subprocess.run(["git", "config", "--file", str(path / "config"), name, value], check=True)
    return path


class GitRepository:
    """A bare repository with an empty first commit on its default branch."""

    def __init__(self, path: Path, branch: str = "main") -> None:
        self.path = path
        shutil.copytree(_template(branch), path)
        self._objects = Objects(path)
        self.set_ref(f"refs/heads/{branch}", self.commit_tree(self._objects.add("tree", b""), [], "Begin"))

    def share_objects(self, other: GitRepository) -> None:
        """Add another repository's objects, as links to the same files: git never changes them."""
        shutil.copytree(other.path / "objects", self.path / "objects", copy_function=_link, dirs_exist_ok=True)

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

    def line(self, *arguments: str) -> str:
        return self.git(*arguments).decode().strip()

    # Names

    def find_commit(self, name: str) -> str | None:
        """The commit of a name (branch, tag, hash)."""
        return self._find(name, "commit")

    def find_tree(self, name: str) -> str | None:
        """The tree of a commit, of `commit:folder`, or of a tree."""
        commit, colon, path = name.partition(":")
        sha = self._find(commit, "tree")
        if not (colon and sha):
            return sha
        node = self._node(sha, path.strip("/")) if path.strip("/") else (FOLDER, sha)
        return node[1] if node and node[0] == FOLDER else None

    def _find(self, name: str, kind: str) -> str | None:
        sha = self._resolve(name)
        found = self._read(sha) if sha else None
        if sha and found and kind == "tree" and found[0] == "commit":
            return self._tree_of(sha)
        if found and found[0] == "tag":
            return self._find(found[1].split(b"\n", 1)[0].split()[1].decode(), kind)
        return sha if found and found[0] == kind else None

    def _resolve(self, name: str) -> str | None:
        """Resolve a name to a hash; git resolves unusual names."""
        if SHA.fullmatch(name):
            return name
        places = (
            ("", "refs/", "refs/tags/", "refs/heads/") if name.startswith("refs/") else ("refs/tags/", "refs/heads/")
        )
        found = (read_ref(self.path, place + name) for place in places)
        return next((sha for sha in found if sha), None) or self._ask_for(name)

    def find_ref(self, ref: str) -> str | None:
        return self._resolve(ref)

    def _ask_for(self, name: str) -> str | None:
        try:
            return self.line("rev-parse", "--verify", "--quiet", "--end-of-options", name)
        except GitError:
            return None

    def set_ref(self, ref: str, sha: str) -> None:
        is_usual = is_plain_ref(ref) and SHA.fullmatch(sha) and self._read(sha)
        if not is_usual or not write_ref(self.path, ref, sha):
            self.git("update-ref", ref, sha)

    def delete_ref(self, ref: str) -> None:
        self.git("update-ref", "-d", ref)

    # Objects

    def _read(self, sha: str) -> tuple[str, bytes] | None:
        """The kind and the content of an object."""
        found = self._objects.find(sha)
        if found or not self._objects.has_packs():
            return found
        head, _, rest = self.git("cat-file", "--batch", stdin=f"{sha}\n".encode()).partition(b"\n")
        if head.endswith(b"missing"):
            return None
        self._objects.keep(sha, head.split()[1].decode(), rest[:-1])
        return self._objects.find(sha)

    def _content(self, sha: str, kind: str) -> bytes:
        found = self._read(sha)
        if not found or found[0] != kind:
            raise GitError(f"{sha} is no {kind}")
        return found[1]

    def blob(self, sha: str) -> bytes | None:
        found = self._read(sha)
        return found[1] if found and found[0] == "blob" else None

    def add_blob(self, content: bytes) -> str:
        return self._objects.add("blob", content)

    def add_tree(self, content: bytes) -> str:
        return self._objects.add("tree", content)

    def _node(self, tree: str, path: str) -> Node | None:
        """The entry at a path of a tree."""
        node: Node | None = (FOLDER, tree)
        for part in path.split("/"):
            if node is None or node[0] != FOLDER:
                return None
            node = read_tree(self._content(node[1], "tree")).get(part)
        return node

    def entries(self, tree: str, *, recursive: bool = False) -> list[Entry]:
        found = []
        for path, (mode, sha) in read_tree(self._content(tree, "tree")).items():
            content = self._read(sha)
            kind = content[0] if content else "commit"
            size = len(content[1]) if content and kind == "blob" else None
            found.append(Entry(path, mode.rjust(6, "0"), kind, sha, size))
            if recursive and kind == "tree":
                inside = self.entries(sha, recursive=True)
                found += (Entry(f"{path}/{one.path}", one.mode, one.kind, one.sha, one.size) for one in inside)
        return found

    def read(self, ref: str, path: str) -> bytes | None:
        """A file's content at a ref."""
        tree = self.find_tree(ref)
        node = self._node(tree, path) if tree else None
        return self.blob(node[1]) if node else None

    def files(self, ref: str) -> list[str]:
        tree = self.find_tree(ref)
        return [entry.path for entry in self.entries(tree, recursive=True) if entry.kind == "blob"] if tree else []

    def contents(self, ref: str) -> dict[str, bytes]:
        """All files at a ref, by path; empty if there is no such ref."""
        tree = self.find_tree(ref)
        files = self._paths(tree) if tree else {}
        return {path: self._content(sha, "blob") for path, (_, sha) in files.items()}

    def check_out(self, commit: str, folder: Path, *, is_shallow: bool) -> None:
        """Make a clone at a commit, with our objects; `is_shallow` leaves out its history.

        Equal files get equal times, so that Python finds their compiled versions.
        """
        clone = {
            "HEAD": commit,
            "config": "[core]\nrepositoryformatversion = 0",
            "objects/info/alternates": str(self.path / "objects"),
            **({"shallow": commit} if is_shallow else {}),
        }
        (folder / ".git/refs").mkdir(parents=True)
        for name, text in clone.items():
            file = folder / ".git" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"{text}\n")
        for path, (mode, sha) in self._paths(self._tree_of(commit)).items():
            file, moment = folder / path, int(sha[:7], 16)
            file.parent.mkdir(parents=True, exist_ok=True)
            if mode == LINK:
                file.symlink_to(os.fsdecode(self._content(sha, "blob")))
                continue
            file.write_bytes(self._content(sha, "blob"))
            file.chmod(int(mode[-3:], 8))
            os.utime(file, (moment, moment))

    def _paths(self, tree: str, folder: str = "") -> Paths:
        """All files of a tree."""
        found: Paths = {}
        for name, node in read_tree(self._content(tree, "tree")).items():
            if node[0] == FOLDER:
                found |= self._paths(node[1], f"{folder}{name}/")
            else:
                found[folder + name] = node
        return found

    # Commits

    def commit(
        self,
        files: Mapping[str, Content],
        *,
        parent: str | None,
        message: str = "Change",
        modes: Mapping[str, str] | None = None,
    ) -> str:
        """Make a commit that changes these files of its parent; no branch moves.  A mode of 120000 makes a link."""
        changes: dict[str, Node | None] = {}
        for path, content in files.items():
            if any(part.lower() in ("", ".", "..", ".git") for part in path.split("/")):
                raise GitError(f"invalid path '{path}'")
            data = content.encode() if isinstance(content, str) else content
            changes[path] = None if data is None else ((modes or {}).get(path, "100644"), self.add_blob(data))
        tree = self._changed(self._tree_of(parent) if parent else EMPTY_TREE, changes)
        return self.commit_tree(tree or self._objects.add("tree", b""), [parent] if parent else [], message)

    def _changed(self, tree: str, changes: Mapping[str, Node | None]) -> str | None:
        """A tree with some of its files changed; None if it is empty then."""
        nodes = read_tree(self._content(tree, "tree"))
        inside: dict[str, dict[str, Node | None]] = {}
        for path, node in changes.items():
            name, slash, rest = path.partition("/")
            if slash:
                inside.setdefault(name, {})[rest] = node
            elif node is None:
                nodes.pop(name, None)
            else:
                nodes[name] = node
        for name, below in inside.items():
            mode, sha = nodes.get(name, (FOLDER, EMPTY_TREE))
            made = self._changed(sha if mode == FOLDER else EMPTY_TREE, below)
            nodes.pop(name, None)
            if made:
                nodes[name] = (FOLDER, made)
        return self._objects.add("tree", write_tree(nodes)) if nodes else None

    def commit_tree(self, tree: str, parents: list[str], message: str) -> str:
        self._content(tree, "tree")
        for parent in parents:
            self._content(parent, "commit")
        now = f"{int(time.time())} +0000"
        lines = [f"tree {tree}", *(f"parent {parent}" for parent in parents)]
        lines += [f"author {AUTHOR} {now}", f"committer {COMMITTER} {now}", "", message.removesuffix("\n"), ""]
        return self._objects.add("commit", "\n".join(lines).encode())

    def _head(self, commit: str) -> list[list[str]]:
        """The lines of a commit above its message, split into words."""
        text = self._content(commit, "commit").decode(errors="replace")
        return [line.split() for line in text.partition("\n\n")[0].split("\n")]

    def _tree_of(self, commit: str) -> str:
        return self._head(commit)[0][1]

    def message(self, commit: str) -> str:
        text = self._content(self._require_commit(commit), "commit").decode(errors="replace")
        return text.partition("\n\n")[2].strip()

    def parents(self, commit: str) -> list[str]:
        return [words[1] for words in self._head(self._require_commit(commit)) if words[0] == "parent"]

    def _history(self, commit: str) -> set[str]:
        """A commit and all its ancestors."""
        found, ahead = {commit}, [commit]
        while ahead:
            new = set(self.parents(ahead.pop())) - found
            found |= new
            ahead += new
        return found

    def _require_commit(self, name: str) -> str:
        commit = self.find_commit(name)
        if commit is None:
            raise GitError(f"{name} is no commit")
        return commit

    def merge_base(self, one: str, other: str) -> str | None:
        one, other = self._require_commit(one), self._require_commit(other)
        common = self._history(one) & self._history(other)
        best = common - {parent for commit in common for parent in self.parents(commit)}
        # After criss-cross merges there are several, and git chooses one.
        return min(best, default=None) if len(best) < 2 else self.line("merge-base", one, other)

    def changes(self, base: str, head: str) -> list[Change]:
        """The head's changes since it diverged from the base, as GitHub shows a pull request."""
        start, head = self.merge_base(base, head), self._require_commit(head)
        before = self._paths(self._tree_of(start)) if start else {}
        after = self._paths(self._tree_of(head))
        changed = _changed_paths(before, after)
        if any(path not in after for path in changed) and any(path not in before for path in changed):
            return self._changes_with_renames(start or EMPTY_TREE, head)
        found = []
        for path in sorted(changed, key=os.fsencode):
            old, new = before.get(path), after.get(path)
            is_same_kind = old and new and old[0][:2] == new[0][:2]
            status = "added" if not old else "removed" if not new else "modified" if is_same_kind else "changed"
            found.append(Change(path, status, None, new[1] if new else "0" * 40))
        return found

    def _changes_with_renames(self, start: str, head: str) -> list[Change]:
        """The changes from git itself: a removed and an added file may be a rename."""
        parts = iter(self.git("diff-tree", "-r", "-z", "-M", start, head).decode(errors="surrogateescape").split("\0"))
        found = []
        for line in parts:
            if line:
                _, _, _, sha, status = line[1:].split()
                previous = next(parts) if status[0] in "RC" else None
                found.append(Change(next(parts), _STATUS[status[0]], previous, sha))
        return found

    def merge_trees(self, base: str, head: str) -> str | None:
        """The merged tree of both; None on a conflict."""
        base, head = self._require_commit(base), self._require_commit(head)
        start = self.merge_base(base, head)
        if start:
            before, ours, theirs = (self._paths(self._tree_of(commit)) for commit in (start, base, head))
            changed = _changed_paths(before, theirs)
            if _are_apart(before, ours, theirs, changed):
                return self._changed(self._tree_of(base), {path: theirs[path] for path in changed})
        try:
            return self.line("merge-tree", "--write-tree", base, head).splitlines()[0]
        except GitError:
            return None

    def is_ancestor(self, old: str, new: str) -> bool:
        return self.merge_base(old, new) == old


def _link(source: str, target: str) -> None:
    with contextlib.suppress(FileExistsError):
        os.link(source, target)


_STATUS = {"A": "added", "M": "modified", "D": "removed", "R": "renamed", "C": "copied", "T": "changed"}


def _changed_paths(before: Paths, after: Paths) -> set[str]:
    return {path for path, _ in before.items() ^ after.items()}


def _are_apart(before: Paths, ours: Paths, theirs: Paths, changed: set[str]) -> bool:
    """Whether their changes apply to our tree without conflict: they removed no file, and we changed none of theirs."""
    if before.keys() - ours.keys() or before.keys() - theirs.keys():
        return False
    if any(before.get(path) != ours.get(path) for path in changed):
        return False
    folders = {folder for path in ours for folder in _folders(path)}
    return not any(path in folders or any(folder in ours for folder in _folders(path)) for path in changed)


def _folders(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:end]) for end in range(1, len(parts))]
