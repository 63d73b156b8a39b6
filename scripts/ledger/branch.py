"""The ledger on GitHub: the orphan branch `ledger`, read and appended to through git itself.

    with LedgerBranch(url, token=token, wanted=under("requests", "accounts")) as branch:
        branch.ledger.append_request(request)            a folder, as everywhere
        added = branch.commit("Ask for 12 on H100")      the files that this commit has put on GitHub

    lost race    ──▶  fetch, add our files to the new tip, push again
    same file    ──▶  the first push wins; the other file is dropped
    new facts    ──▶  among those that were read: the caller decides again

A commit contains new files only, and is built without the working tree.  So local changes to other files cannot rewrite
anything, and nothing conflicts.  A push names one branch and never forces.  Only `remove` deletes files, for an owner
who purges a task: from the tip, not from the branch's history.
"""

from __future__ import annotations

import random
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from scripts.common.git_command import BOT, Git, GitError, blob_sha
from scripts.ledger.facts import find_files
from scripts.ledger.ledger import FOLDERS, Ledger, LedgerError
from scripts.ledger.names import Choose, either, everything

BRANCH = "ledger"

MAX_ATTEMPTS = 40
LONGEST_WAIT_S = 8.0
"""If a push takes a second, 100 writers that start together need at most about 30 attempts each."""

FETCHES = 3
"""Attempts for a fetch when the network fails."""

README = b"""# The ledger

The facts of this competition: requests, judgements and decisions. Each is one file, added by the bot and never
changed; the boards are computed from them. Do not edit anything here by hand.
"""

_SUBMODULE = "160000 "
_LOST_RACE = re.compile(r"^!.*(\[rejected\]|cannot lock ref|failed to update ref|already exists)", re.MULTILINE)
_REFUSED = re.compile(
    r"^!.*\[remote rejected\]|Authentication failed|could not read Username|Permission denied|returned error: 40[134]"
    r"|[Rr]epository .*not found|does not appear to be a git repository",
    re.MULTILINE,
)
_TAKEN_FOR_SECRETS = re.compile("push protection|cannot contain secrets", re.IGNORECASE)
_MAY_NOT_PUSH = f"The bot must be able to push to the branch '{BRANCH}': `pullrank setup --check`"
_MAY_NOT_PUSH_THIS = (
    "GitHub's push protection takes a participant's text for a secret. Restore .github/secret_scanning.yml on the "
    "default branch as shipped, or switch push protection off: Settings → Advanced Security"
)


class LedgerBranch:
    """A working copy of the branch, in a temporary folder for the `with` block.

    `wanted` selects the files to read: see `scripts/ledger/names.py`.  Facts may be added anywhere.
    """

    ledger: Ledger

    def __init__(self, url: str, *, token: str | None = None, wanted: Choose = everything) -> None:
        if urlsplit(url).password or (urlsplit(url).username and not url.startswith("ssh:")):
            raise LedgerError("the ledger's URL must not hold a password or a token")
        self._url, self._token, self._wanted = url, token, wanted
        self._tip: str | None = None
        self._known: Mapping[str, str] = {}  # at the tip: path → blob
        self._checked_out: dict[str, str] = {}  # in the folder, when it last matched the tip
        self._doubt: GitError | None = None  # why a push of this commit has no answer: it may have succeeded

    def __enter__(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix="pullrank-ledger-"))
        try:
            self._git = Git(self._folder, self._url, self._token)
            self._clone()
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        self.ledger = Ledger(self._folder)
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def names(self) -> Collection[str]:
        """The names of all files on the branch, read or not."""
        return self._known.keys()

    def check_out(self, more: Choose) -> None:
        """Read more files, in addition to `wanted`."""
        self._wanted = either(self._wanted, more)
        self._show(self._checked_out | self._choose(more))

    def commit(self, message: str, decide_anew: Callable[[], str] | None = None) -> tuple[Path, ...]:
        """Push the added files, and return those that this push has put on the branch.

        The others already existed on the branch; the folder then has their content.  If the branch does not exist, it
        is created, even without facts.

        Args:
            decide_anew: for facts that depend on those that were read.  If others changed these before our push, the
                added files are removed, and this callback adds new ones from the folder's current content.  It returns
                the commit message.

        Raises:
            LedgerError: GitHub refused, or every attempt failed; the added files stay for another try.
        """
        ours = self._added()
        for _ in self._attempts():
            differs = any(self._known.get(path) != blob for path, blob in ours.items())
            if decide_anew and differs and (chosen := self._choose(self._wanted)) != self._checked_out:
                self._take_back(ours, chosen)
                message, ours = decide_anew(), self._added()
            new = {path: blob for path, blob in ours.items() if path not in self._known}
            # If the answer to an earlier push was lost, identical files on the branch are ours.
            same = {path for path, blob in ours.items() if self._doubt and self._known.get(path) == blob}
            if (self._tip and not new) or self._push(new, message):
                return self._settle(ours, new.keys() | same)
        raise self._given_up()

    def remove(self, doomed: Choose, message: str) -> int:
        """Delete files from the tip in one commit, and return how many there were.

        Raises:
            LedgerError: as in `commit`.
        """
        count = 0
        for _ in self._attempts():
            gone = sorted(set(doomed(self._known.keys())))
            count = count or len(gone)
            if not gone or self._push({}, message, gone):
                self._show(self._choose(self._wanted))
                return count
        raise self._given_up()

    def _attempts(self) -> Iterator[int]:
        """Number the attempts; fetch the new tip before each one but the first."""
        self._doubt = None
        for attempt in range(MAX_ATTEMPTS):
            if attempt:
                time.sleep(_wait_s(attempt))
                self._fetch()
            yield attempt

    def _given_up(self) -> LedgerError:
        way_out = f"in {MAX_ATTEMPTS} attempts; nothing is lost; run it again"
        if self._doubt:
            return LedgerError(f"'{BRANCH}' could not be pushed {way_out}: {self._doubt}")
        return LedgerError(f"others pushed to '{BRANCH}' first {way_out}")

    # Reading.

    def _clone(self) -> None:
        self._git.run("init", "--quiet", "--template=", "--initial-branch", BRANCH)
        # Takes precedence over any .gitattributes in the branch.
        (self._folder / ".git/info").mkdir(exist_ok=True)
        (self._folder / ".git/info/attributes").write_text("* -text -filter -ident -working-tree-encoding\n")
        self._fetch()
        self._show(self._choose(self._wanted))

    def _fetch(self) -> None:
        """Fetch the branch's tip and its file names, without contents."""
        fetch = ["fetch", "--quiet", "--no-tags", "--depth=1", "--filter=blob:none"]
        for attempt in range(1, FETCHES + 1):
            try:
                self._git.run(*fetch, "origin", f"+refs/heads/{BRANCH}:refs/remotes/origin/{BRANCH}")
                break
            except GitError as error:
                if "couldn't find remote ref" in error.said:
                    return
                if _REFUSED.search(error.said) or attempt == FETCHES:
                    raise
                time.sleep(_wait_s(attempt + 3))
        self._tip = (self._folder / ".git/FETCH_HEAD").read_text().split()[0]
        self._known = self._list(self._tip)

    def _list(self, tip: str) -> dict[str, str]:
        """All files of a commit, with their blob hashes."""
        entries = self._git.run("ls-tree", "-r", "-z", "--full-tree", tip).decode("utf-8", "surrogateescape")
        rows = (entry.partition("\t") for entry in entries.split("\0") if entry)
        return {path: facts.split()[2] for facts, _, path in rows if not facts.startswith(_SUBMODULE)}

    def _choose(self, choice: Choose) -> dict[str, str]:
        return {path: self._known[path] for path in choice(self._known.keys())}

    def _show(self, files: dict[str, str]) -> None:
        """Check out these files of the branch, and no others."""
        if files != self._checked_out:
            for path in self._checked_out.keys() - files.keys():
                (self._folder / path).unlink(missing_ok=True)  # git's index does not have those that we added
            # With a tree of these files only, git fetches all their contents at once.
            self._git.run("read-tree", "--reset", "-u", self._write_tree(files))
            self._checked_out = files

    def _write_tree(self, files: Mapping[str, str]) -> str:
        """A tree of these files; their contents need not be present."""
        with tempfile.TemporaryDirectory(dir=self._folder / ".git") as folder:
            index = Path(folder, "index")
            lines = "".join(f"100644 {blob}\t{path}\0" for path, blob in files.items())
            self._git.run(
                "update-index", "-z", "--index-info", stdin=lines.encode("utf-8", "surrogateescape"), index=index
            )
            return self._git.run("write-tree", "--missing-ok", index=index).decode().strip()

    # Writing.

    def _added(self) -> dict[str, str]:
        """The files that were added to the folder, with their blob hashes."""
        found = (path.as_posix() for folder in FOLDERS for path in find_files(self._folder, folder, []))
        paths = [path for path in found if path not in self._checked_out and not (self._folder / path).is_symlink()]
        return {path: blob_sha(self._read(path)) for path in paths}

    def _read(self, path: str) -> bytes:
        try:
            return (self._folder / path).read_bytes()
        except OSError as error:
            raise LedgerError(f"{path} cannot be read: {error.strerror}") from None

    def _build(self, new: Collection[str], message: str, gone: Collection[str] = ()) -> str:
        """Build a commit: the tip plus the new files, minus those `gone`; the folder and its index do not change."""
        text = message.encode()
        stream = [b"commit refs/pullrank/next\nmark :1", f"committer {BOT} now".encode(), _data(text)]
        if self._tip:
            stream.append(f"from {self._tip}".encode())
        else:
            stream += [b"M 100644 inline README.md", _data(README)]
        for path in new:
            # Names of facts have no line breaks; for any other name, git fails.
            stream += [f"M 100644 inline {path}".encode("utf-8", "surrogateescape"), _data(self._read(path))]
        stream += (f"D {_quoted(path)}".encode("utf-8", "surrogateescape") for path in gone)
        stream.append(b"get-mark :1\ndone\n")
        # One process, which reads and writes only the folders that change.
        options = ("--quiet", "--force", "--done", "--date-format=now")
        return self._git.run("fast-import", *options, stdin=b"\n".join(stream)).decode().strip()

    def _push(self, new: Mapping[str, str], message: str, gone: Collection[str] = ()) -> bool:
        """Build a commit with the new files and without those `gone`, and push it; whether GitHub confirms that.

        Raises:
            LedgerError: GitHub refused.
        """
        commit = self._build(new, message, gone)
        try:
            said = self._git.run("push", "--porcelain", "origin", f"{commit}:refs/heads/{BRANCH}")
        except GitError as error:
            if _LOST_RACE.search(error.said):
                return False
            if _REFUSED.search(error.said):
                way_out = _MAY_NOT_PUSH_THIS if _TAKEN_FOR_SECRETS.search(error.said) else _MAY_NOT_PUSH
                raise LedgerError(f"{error}\n{way_out}") from None
            self._doubt = error
            return False
        if b"\n=\t" in said:  # up to date: another process made an identical commit in the same second
            return False
        if self._tip:
            self._known = {path: blob for path, blob in {**self._known, **new}.items() if path not in gone}
        else:
            self._known = self._list(commit)
        self._tip = commit
        return True

    def _settle(self, ours: Collection[str], standing: Collection[str]) -> tuple[Path, ...]:
        """Update the folder to the tip; others' files replace ours of the same name."""
        lost = set(ours).difference(standing)
        shown = self._choose(self._wanted) | self._choose(lambda _: ours)
        if {path: blob for path, blob in shown.items() if path not in ours} == self._checked_out and not lost:
            # Ours are in place; restore the others, in case one was changed here by mistake.
            self._git.run("checkout-index", "--all", "--force", "--quiet")
            self._checked_out = shown
        else:
            self._take_back(lost, shown)
        return tuple(map(Path, sorted(standing)))

    def _take_back(self, ours: Collection[str], shown: dict[str, str]) -> None:
        """Remove added files, and check out the tip's."""
        for path in ours:
            (self._folder / path).unlink()
        self._show(shown)


def _data(content: bytes) -> bytes:
    """Data in fast-import's format."""
    return b"data %d\n%s" % (len(content), content)


def _quoted(path: str) -> str:
    """Quote a path for fast-import: somebody may have added odd names to the branch by hand."""
    escaped = path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _wait_s(attempt: int) -> float:
    """Exponential backoff with jitter, so that processes that collided do not collide again."""
    return random.uniform(0, min(LONGEST_WAIT_S, 0.05 * 2**attempt))  # noqa: S311 (need not be unpredictable)
