"""Read a pull request's commits through git: which files they change, and the content of one file.

    head's hash ──commits only──▶  where it branched off the default branch
                ──trees only────▶  which paths it has changed since
                ──one folder────▶  the one file, unless it exceeds the size limit: then the server omits it

git uses none of the token's API requests, and fetches by content hash.  The tree is hostile: it is never checked out,
paths stay text, and inspecting it never triggers another fetch.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Self

from scripts.common.git_command import Git, GitError
from scripts.github.pulls import BlobInfo, ChangedFile

MAX_CHANGES = 300
"""Further changed files are not listed; a submission is a single file."""
MAX_CONFLICTS = 127
"""The exit code of `git merge-file` is the number of conflicts, up to this one; a higher one is a failure."""
MAX_MERGED = 4 << 20
"""A larger file is not merged."""
TRIES = 2
"""Attempts for each fetch; after the last one, the reconciler tries again later."""

_EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
_BASE = "refs/base"
_STATUS = {"A": "added", "M": "modified", "D": "removed", "R": "renamed", "C": "copied", "T": "changed"}


class Fork:
    """The forks of a repository, fetched from its own URL into a temporary folder for the `with` block."""

    def __init__(self, url: str, token: str | None = None) -> None:
        self._url, self._token = url, token
        self._trees: dict[str, Git] = {}
        self._bases_of: dict[str, list[str]] = {}

    def __enter__(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix="pullrank-fork-"))
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def changes(self, head_sha: str, *, before_merge: bool = False) -> tuple[ChangedFile, ...]:
        """The files that a commit has changed since it branched off the current default branch.

        A file that was moved and changed counts as removed and added: git would need its content to detect a rename.

        Args:
            before_merge: also fetch the default branch's files, for `would_blend`.

        Raises:
            GitError: the commit no longer exists, or git failed.
        """
        bases, more = self._bases(head_sha), (f"+HEAD:{_BASE}",) if before_merge else ()
        git = self.fetch("--depth=1", "--filter=blob:none", *more, head_sha, *bases)
        self._trees[head_sha] = git
        # After criss-cross merges there are several bases: a difference from any of them is a change.
        found = (change for base in bases or [_EMPTY_TREE] for change in _differences(git, base, head_sha))
        return tuple(dict.fromkeys(islice(found, MAX_CHANGES)))

    def differences(self, before: str, after: str) -> tuple[ChangedFile, ...]:
        """The files that differ between two commits; `before` may be forty zeros, for a new branch.

        Raises:
            GitError: a commit no longer exists, or git failed.
        """
        commits = [sha for sha in (before, after) if sha.strip("0")]
        git = self.fetch("--depth=1", "--filter=blob:none", *commits)
        start = before if before in commits else _EMPTY_TREE
        return tuple(islice(_differences(git, start, after), MAX_CHANGES))

    def is_outdated(self, head_sha: str, folder: str) -> bool:
        """Whether a folder of the current default branch differs from that of a commit.

        Raises:
            GitError: the commit no longer exists, or git failed.
        """
        git = self.fetch("--depth=1", "--filter=blob:none", f"+HEAD:{_BASE}", head_sha)
        listing = ("ls-tree", "-d", "--full-tree")
        ours, theirs = (git.run(*listing, commit, "--", folder, offline=True) for commit in (_BASE, head_sha))
        return ours != theirs

    def would_blend(self, head_sha: str, path: str) -> bool:
        """Whether a merge would change a commit's file, because the default branch has other changes of it.

        Call it after `changes` with `before_merge`: the default branch is read as it was then.  False if the changes
        conflict: GitHub refuses such a merge.

        Raises:
            GitError: the commit no longer exists, or git failed.
        """
        git, commits = self._trees[head_sha], (_BASE, head_sha, *self._bases(head_sha))
        blobs = [git.run("ls-tree", "-z", "--full-tree", commit, "--", path, offline=True) for commit in commits]
        if blobs[0] in blobs[1:] or not all(blobs):
            return False
        self._trees |= dict.fromkeys(commits, git)
        ours, theirs, *before = (self.read(commit, path, MAX_MERGED)[1] for commit in commits)
        return any(_merged(git, ours, base, theirs) not in (None, theirs) for base in before)

    def read(self, head_sha: str, path: str, max_bytes: int) -> tuple[BlobInfo | None, bytes]:
        """The file at a path of a commit, and its content; links are not followed.

        The content is empty if the file is not a plain file or is larger than `max_bytes`; then its `size` is
        `max_bytes + 1`.

        Raises:
            GitError: the commit no longer exists, or git failed.
        """
        git = self._trees.get(head_sha) or self.fetch("--depth=1", "--filter=blob:none", head_sha)
        self._trees[head_sha] = git
        line = git.run("ls-tree", "-z", "--full-tree", head_sha, "--", path, offline=True).decode("utf-8", "replace")
        facts, _, found = line.removesuffix("\0").partition("\t")
        if found != path or facts.split()[1] != "blob":
            return None, b""
        mode, _, sha = facts.split()
        content = self._content(git, head_sha, path, sha, max_bytes)
        size = max_bytes + 1 if content is None else len(content)
        info = BlobInfo(sha=sha, mode=mode, size=size)
        return info, content if content is not None and info.is_plain else b""

    def _content(self, git: Git, head_sha: str, path: str, sha: str, max_bytes: int) -> bytes | None:
        """Fetch a file with its folder: git applies no size limit to a blob that is fetched by its own hash."""
        folder = path.rpartition("/")[0]
        tree = git.run("rev-parse", "--verify", f"{head_sha}:{folder}", offline=True).decode().strip()
        store = self.fetch(f"--filter=blob:limit={max_bytes + 1}", tree)
        # A server without filter support sends it regardless of size.
        is_wanted = sizes_in(store).get(sha, max_bytes + 1) <= max_bytes
        return store.run("cat-file", "blob", sha, offline=True) if is_wanted else None

    def _bases(self, head_sha: str) -> list[str]:
        """The merge bases of a head and the default branch: usually one; none for an unrelated history."""
        if head_sha not in self._bases_of:
            self._bases_of[head_sha] = self._find_bases(head_sha)
        return self._bases_of[head_sha]

    def _find_bases(self, head_sha: str) -> list[str]:
        git = self.fetch("--filter=tree:0", f"+HEAD:{_BASE}", head_sha)
        bases = _merge_bases(git, _BASE, head_sha)
        before = _before_its_merge(git, head_sha) if bases == [head_sha] else ""
        return _merge_bases(git, before, head_sha) if before else bases

    def fetch(self, *asked: str) -> Git:
        """Fetch into a new bare repository, so that earlier fetches do not affect what the server sends.

        Args:
            asked: options, and what to fetch: hashes or refs.

        Raises:
            GitError: something no longer exists, or git failed.
        """
        folder = Path(tempfile.mkdtemp(dir=self._folder))
        git = Git(folder, self._url, self._token, limited=True)
        git.run("init", "--quiet", "--bare", "--template=")
        options = [one for one in asked if one.startswith("--")]
        wanted = "\n".join(one for one in asked if not one.startswith("--")).encode()
        for attempt in range(TRIES):
            try:
                quiet = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules")
                git.run(*quiet, *options, "--stdin", "origin", stdin=wanted)
                break
            except GitError:
                if attempt + 1 == TRIES:
                    raise
        return git


def _merge_bases(git: Git, one: str, other: str) -> list[str]:
    try:
        return git.run("merge-base", "--all", one, other, offline=True).decode().split()
    except GitError as error:
        if error.said.strip():
            raise
        return []


def _before_its_merge(git: Git, head_sha: str) -> str:
    """The commit of the default branch into which a merge commit brought this head; "" if none did."""
    since = f"{head_sha}..{_BASE}"
    branch = git.run("rev-list", "--first-parent", since, offline=True).decode().split()
    descendants = {*git.run("rev-list", "--ancestry-path", since, offline=True).decode().split()}
    merges = [commit for commit in branch if commit in descendants]
    parents = git.run("rev-parse", f"{merges[-1]}^@", offline=True).decode().split() if merges else []
    return parents[0] if len(parents) > 1 and parents[0] != head_sha else ""


def _merged(git: Git, ours: bytes, base: bytes, theirs: bytes) -> bytes | None:
    """The merge of two versions of a file; None if they conflict."""
    with tempfile.TemporaryDirectory(dir=git.folder) as folder:
        paths = [Path(folder, name) for name in ("ours", "base", "theirs")]
        for path, content in zip(paths, (ours, base, theirs), strict=True):
            path.write_bytes(content)
        try:
            return git.run("merge-file", "-p", "--quiet", *map(str, paths), offline=True)
        except GitError as error:
            if error.code and error.code <= MAX_CONFLICTS:
                return None
            raise


def sizes_in(git: Git) -> dict[str, int]:
    """The size in bytes of each object that was fetched, by its hash."""
    listing = ("--batch-all-objects", "--batch-check=%(objectname) %(objectsize)")
    lines = git.run("cat-file", *listing, offline=True).decode().splitlines()
    return {sha: int(size) for sha, size in map(str.split, lines)}


def _differences(git: Git, base: str, head_sha: str) -> Iterator[ChangedFile]:
    # Detect exact renames only: a similarity search would fetch contents.
    raw = git.run("diff-tree", "-r", "-z", "--raw", "-M100%", base, head_sha, offline=True)
    parts = iter(raw.decode("utf-8", "replace").split("\0"))
    for facts in parts:
        if not facts:
            return
        status = facts.split()[4][0]
        previous = next(parts) if status in "RC" else None
        yield ChangedFile(path=next(parts), status=_STATUS.get(status, "changed"), previous_path=previous)
