"""Merged files: those in `submissions/` now, and former ones from git history.

    submissions/<task>/<login>/submission.py      the author's current file
      └─ its git history                          earlier files: of former records, or of rows on other boards

Files are found by digest, which every judgement has.  The history is listed once; old blobs are read only if an
author's current file does not match.
"""

from __future__ import annotations

import re
from collections import defaultdict
from functools import lru_cache
from pathlib import Path

from harness.records.judgement import Judgement
from harness.task.bundle import sha256
from scripts.common.git_command import Git, GitError

_CHANGE = re.compile(
    rb"^:[0-7]{6} 100[0-7]{3} [0-9a-f]+ (?P<blob>[0-9a-f]+) [A-Z]\t"
    rb"submissions/(?P<task>[^/\n]+)/(?P<login>[^/\n]+)/submission\.[^/\n]+$",
    re.MULTILINE,
)
"""A line of git's raw diff format that adds or changes a plain file at a submission's path."""


class MergedFiles:
    """The files of `submissions/` in `folder`, by digest; lists git history once, before any fork of the process."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._git = folder, Git(folder, "")
        self._blobs = self._find_blobs()
        self._lying = lru_cache(4096)(self._read_current)
        self._former = lru_cache(256)(self._read_former)

    @property
    def is_whole(self) -> bool:
        """Whether the whole history is present, so that a file not found was never merged."""
        return self._blobs is not None

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for maintainers: whether files may be missing."""
        if self.is_whole:
            return ()
        return (
            f"{self._folder}: the git history is incomplete, so files that their authors have replaced are not shown; "
            "`git fetch --unshallow` completes a shallow clone",
        )

    def find(self, task: str, login: str, digest: str) -> bytes | None:
        """A merged file of `login`, current or former."""
        lying = self._lying(task, login).get(digest)
        return self._former(task, login).get(digest) if lying is None else lying

    def source_of(self, judgement: Judgement) -> str | None:
        """The text of a judged file."""
        submission = judgement.submission
        content = self.find(judgement.task, submission.login, submission.digest)
        return None if content is None else content.decode("utf-8", "replace")

    def _read_current(self, task: str, login: str) -> dict[str, bytes]:
        paths = (self._folder / "submissions" / task / login).glob("submission.*")
        try:
            return {sha256(content): content for content in (path.read_bytes() for path in paths)}
        except OSError:
            return {}  # The caller reports a file that it does not find.

    def _read_former(self, task: str, login: str) -> dict[str, bytes]:
        blobs = (self._blobs or {}).get((task, login), ())
        if not blobs:
            return {}
        try:
            return {sha256(content): content for content in self._git.read_blobs(blobs).values()}
        except GitError:
            return {}  # A blob is damaged or was never fetched: the page reports the file as unavailable.

    def _find_blobs(self) -> dict[tuple[str, str], list[str]] | None:
        """All blobs of the history by task and login; None without git, or in a shallow clone."""
        try:
            if self._git.run("rev-parse", "--is-shallow-repository", offline=True).strip() != b"false":
                return None
            changes = self._git.run(*_LOG, offline=True)
        except GitError:
            return None
        blobs: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)
        for change in _CHANGE.finditer(changes):
            blob, task, login = (change[name].decode("utf-8", "replace") for name in ("blob", "task", "login"))
            blobs[task, login][blob] = None
        return {author: list(found) for author, found in blobs.items()}


# Compare a merge with its first parent only: with the others, it would show unrelated changes.
_LOG = (
    "log", "--full-history", "--diff-merges=first-parent", "--raw", "--no-abbrev", "--no-renames", "--no-color",
    "--relative", "--format=", "HEAD", "--", "submissions",
)  # fmt: skip
