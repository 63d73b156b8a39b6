"""Files that were merged: those that lie in `submissions/` now, and those that git remembers there.

    submissions/<task>/<login>/submission.py      the author's file of today
      └─ its history in git                       what it was before: a former first's, or the row of another board

A file is found by its digest, which every judgement holds.  git is asked once which blobs lay where, and its blobs
are read only of an author whose file of today is not the one.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
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
"""A line of git's raw format that leaves a plain file at a submission's path."""


class MergedFiles:
    """The files of `submissions/` in `folder`, by digest; git is asked at once, so that forked processes needn't."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._git = folder, Git(folder, "")
        self._blobs = self._find_blobs()
        self._lying = lru_cache(4096)(self._read_lying)
        self._former = lru_cache(256)(self._read_former)

    @property
    def is_whole(self) -> bool:
        """Whether the whole history is here, so that what is not found was never merged."""
        return self._blobs is not None

    @property
    def notes(self) -> tuple[str, ...]:
        """What a maintainer should know: that files may be missing, if so."""
        if self.is_whole:
            return ()
        return (
            f"{self._folder}: there is no whole git history here, so files that their authors have replaced are not "
            "shown; `git fetch --unshallow` brings it to a clone that is shallow",
        )

    def find(self, task: str, login: str, digest: str) -> bytes | None:
        """A file of `login`'s that was merged, whether or not it lies there still."""
        lying = self._lying(task, login).get(digest)
        return self._former(task, login).get(digest) if lying is None else lying

    def source_of(self, judgement: Judgement) -> str | None:
        """The text of a judged file."""
        submission = judgement.submission
        content = self.find(judgement.task, submission.login, submission.digest)
        return None if content is None else content.decode("utf-8", "replace")

    def _read_lying(self, task: str, login: str) -> dict[str, bytes]:
        paths = (self._folder / "submissions" / task / login).glob("submission.*")
        try:
            return {sha256(content): content for content in (path.read_bytes() for path in paths)}
        except OSError:
            return {}  # What cannot be read is not at hand, and whoever asks for it says so.

    def _read_former(self, task: str, login: str) -> dict[str, bytes]:
        blobs = (self._blobs or {}).get((task, login), ())
        if not blobs:
            return {}
        try:
            read = self._git.run("cat-file", "--batch", stdin="\n".join(blobs).encode(), offline=True)
        except GitError:
            return {}  # A blob is damaged, or was never fetched: then the page says that the file is not at hand.
        return {sha256(content): content for content in _contents(read)}

    def _find_blobs(self) -> dict[tuple[str, str], list[str]] | None:
        """The blobs that ever lay in an author's folder of a task; None without git, or in a shallow clone."""
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


# Against its first parent a merge shows all that it brought; against each, it would show what the others did meanwhile.
_LOG = (
    "log", "--full-history", "--diff-merges=first-parent", "--raw", "--no-abbrev", "--no-renames", "--no-color",
    "--relative", "--format=", "HEAD", "--", "submissions",
)  # fmt: skip


def _contents(batch: bytes) -> Iterator[bytes]:
    """The blobs in what `git cat-file --batch` says: `<id> blob <size>`, content, a line's end; or `<id> missing`."""
    start = 0
    while start < len(batch):
        end = batch.index(b"\n", start)
        *_, kind, size = batch[start:end].split()
        start = end + 1
        if kind == b"blob":
            yield batch[start : start + int(size)]
            start += int(size) + 1
