"""The ledger on GitHub: the orphan branch `ledger`, read and appended to through git itself.

    with LedgerBranch(url, token=token, wanted=under("requests", "accounts")) as branch:
        branch.ledger.append_request(request)            a folder, as everywhere
        added = branch.commit("Ask for 12 on H100")      which files are on GitHub now, and by our doing

    lost race    ──▶  fetch, put our files onto the new tip, push again
    same file    ──▶  whoever pushed first is right; the other's is left out
    new facts    ──▶  of what was read: whoever has decided by it, decides once more

A commit is built beside the working tree from files that are new, and from nothing else: whatever happened to the
others in the folder, nothing is rewritten and nothing conflicts.  A push names one branch and never forces.  Only
`remove` takes files away, for an owner who purges a task: from the tip, and not from the branch's history.
"""

from __future__ import annotations

import random
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from enum import Enum, auto
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from scripts.common.git_command import BOT, Git, GitError, blob_sha
from scripts.ledger.facts import find_files
from scripts.ledger.ledger import Ledger, LedgerError
from scripts.ledger.names import Choice, either, everything

FOLDERS = ("requests", "judgements", "accounts", "moderation", "announced")
"""What facts lie in; nothing else in the folder is ever committed."""

MAX_ATTEMPTS = 40
LONGEST_WAIT_S = 8.0
"""With pushes of a second, a hundred who begin at once are done after some thirty attempts of the unluckiest."""

FETCHES = 3
"""So often a network that fails is tried when nothing else is at stake."""

README = b"""# The ledger

The facts of this competition: what was asked for, what was judged, what was decided. One file each, added by the
bot and never changed; boards are made from them. Nothing here is edited by hand.
"""

_SUBMODULE = "160000 "
_LOST_RACE = re.compile(r"^!.*(\[rejected\]|cannot lock ref|failed to update ref|already exists)", re.MULTILINE)
_REFUSED = re.compile(
    r"^!.*\[remote rejected\]|Authentication failed|could not read Username|Permission denied|returned error: 40[134]"
    r"|[Rr]epository .*not found|does not appear to be a git repository",
    re.MULTILINE,
)


class _Pushed(Enum):
    """`PERHAPS`: the network failed, and the answer may be what was lost."""

    YES = auto()
    NO = auto()
    PERHAPS = auto()


class LedgerBranch:
    """A working copy of the branch, in a temporary folder that goes with the `with` block.

    `wanted` narrows what is read: see `scripts/ledger/names.py`.  Facts may be added anywhere.
    """

    ledger: Ledger

    def __init__(
        self, url: str, *, branch: str = "ledger", token: str | None = None, wanted: Choice = everything
    ) -> None:
        if urlsplit(url).password or (urlsplit(url).username and not url.startswith("ssh:")):
            raise LedgerError("the ledger's URL must not hold a password or a token")
        self._url, self._branch, self._token, self._wanted = url, branch, token, wanted
        self._ref = f"refs/heads/{branch}"
        self._tip: str | None = None
        self._known: Mapping[str, str] = {}  # at the tip: path → blob
        self._checked_out: dict[str, str] = {}  # in the folder, as of when it was last made like the tip

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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def names(self) -> Collection[str]:
        """Of all files on the branch, read or not."""
        return self._known.keys()

    def check_out(self, more: Choice) -> None:
        """Read some files more, where `wanted` has narrowed what is read."""
        self._wanted = either(self._wanted, more)
        self._show(self._checked_out | self._choose(more))

    def commit(self, message: str, decide_anew: Callable[[], str] | None = None) -> tuple[Path, ...]:
        """Push what was added, and say which of the added files are on the branch by our doing.

        The others were there before ours: what they hold is in the folder afterwards.  Where the branch does not
        exist it is made, even for nothing.

        Args:
            decide_anew: for what follows from the facts that were read.  Where others changed those before our push,
                what was added is taken back, and this adds again by what is in the folder now; it returns the message.

        Raises:
            LedgerError: refused, or the race was lost again and again; the added files stay, for another try.
        """
        ours, in_doubt = self._added(), False
        for _ in self._attempts():
            new = self._unknown(ours)
            if decide_anew and new and (chosen := self._choose(self._wanted)) != self._checked_out:
                self._take_back(ours, chosen)
                message, ours = decide_anew(), self._added()
                new = self._unknown(ours)
            # After a push whose answer was lost, what is there and says the same is ours.
            same = {path for path, blob in ours.items() if in_doubt and self._known.get(path) == blob}
            pushed = _Pushed.YES if self._tip and not new else self._push(new, message)
            if pushed is _Pushed.YES:
                return self._settle(ours, new.keys() | same)
            in_doubt |= pushed is _Pushed.PERHAPS
        raise self._outrun()

    def remove(self, doomed: Choice, message: str) -> int:
        """Push a tip without some files, in one commit, and say how many they were.

        Raises:
            LedgerError: as `commit` does.
        """
        count = 0
        for _ in self._attempts():
            gone = sorted(set(doomed(self._known.keys())))
            count = count or len(gone)
            if not gone or self._push({}, message, gone) is _Pushed.YES:
                self._show(self._choose(self._wanted))
                return count
        raise self._outrun()

    def _attempts(self) -> Iterator[int]:
        """One after the other, each but the first at a new tip."""
        for attempt in range(MAX_ATTEMPTS):
            if attempt:
                time.sleep(_wait_s(attempt))
                self._fetch()
            yield attempt

    def _outrun(self) -> LedgerError:
        return LedgerError(
            f"{MAX_ATTEMPTS} times others pushed to '{self._branch}' before us; nothing is lost; run it again"
        )

    # Reading.

    def _clone(self) -> None:
        self._git.run("init", "--quiet", "--template=", "--initial-branch", self._branch)
        # Above what stands in the branch: no attribute of its files has a say.
        (self._folder / ".git/info").mkdir(exist_ok=True)
        (self._folder / ".git/info/attributes").write_text("* -text -filter -ident -working-tree-encoding\n")
        self._fetch()
        self._show(self._choose(self._wanted))

    def _fetch(self) -> None:
        """Learn the branch's tip and what lies in it: names, not contents."""
        tracking = f"refs/remotes/origin/{self._branch}"
        fetch = ["fetch", "--quiet", "--no-tags", "--depth=1", "--filter=blob:none"]
        for attempt in range(1, FETCHES + 1):
            try:
                self._git.run(*fetch, "origin", f"+{self._ref}:{tracking}")
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
        """Every file of a commit and its blob's hash."""
        entries = self._git.run("ls-tree", "-r", "-z", "--full-tree", tip).decode("utf-8", "surrogateescape")
        rows = (entry.partition("\t") for entry in entries.split("\0") if entry)
        return {path: facts.split()[2] for facts, _, path in rows if not facts.startswith(_SUBMODULE)}

    def _choose(self, choice: Choice) -> dict[str, str]:
        return {path: self._known[path] for path in choice(self._known.keys())}

    def _show(self, files: dict[str, str]) -> None:
        """Put these files, and no other of the branch's, into the folder."""
        if files != self._checked_out:
            for path in self._checked_out.keys() - files.keys():
                (self._folder / path).unlink(missing_ok=True)  # git's index knows nothing of those that we added
            # By a tree of these alone: git fetches all their contents at once.
            self._git.run("read-tree", "--reset", "-u", self._write_tree(files))
            self._checked_out = files

    def _write_tree(self, files: Mapping[str, str]) -> str:
        """A tree of these files; none of their contents need be here."""
        with tempfile.TemporaryDirectory(dir=self._folder / ".git") as folder:
            index = Path(folder, "index")
            lines = "".join(f"100644 {blob}\t{path}\0" for path, blob in files.items())
            self._git.run(
                "update-index", "-z", "--index-info", stdin=lines.encode("utf-8", "surrogateescape"), index=index
            )
            return self._git.run("write-tree", "--missing-ok", index=index).decode().strip()

    # Writing.

    def _added(self) -> dict[str, str]:
        """The files of the folder that were not checked out, and the hashes of their blobs."""
        found = (str(path) for folder in FOLDERS for path in find_files(self._folder, folder, []))
        paths = [path for path in found if path not in self._checked_out and not (self._folder / path).is_symlink()]
        return {path: blob_sha(self._read(path)) for path in paths}

    def _read(self, path: str) -> bytes:
        try:
            return (self._folder / path).read_bytes()
        except OSError as error:
            raise LedgerError(f"{path} cannot be read: {error.strerror}") from None

    def _build(self, new: Collection[str], message: str, gone: Collection[str] = ()) -> str:
        """A commit of the tip, the new files, and without those that are `gone`; folder and index are left alone."""
        text = message.encode()
        stream = [b"commit refs/pullrank/next\nmark :1", f"committer {BOT} now".encode(), _data(text)]
        if self._tip:
            stream.append(f"from {self._tip}".encode())
        else:
            stream += [b"M 100644 inline README.md", _data(README)]
        for path in new:
            # Names of facts hold no line break; one that does is not ours, and git says so.
            stream += [f"M 100644 inline {path}".encode("utf-8", "surrogateescape"), _data(self._read(path))]
        stream += (f"D {_quoted(path)}".encode("utf-8", "surrogateescape") for path in gone)
        stream.append(b"get-mark :1\ndone\n")
        # One process, which reads and writes the folders that change, and no others.
        options = ("--quiet", "--force", "--done", "--date-format=now")
        return self._git.run("fast-import", *options, stdin=b"\n".join(stream)).decode().strip()

    def _push(self, new: Mapping[str, str], message: str, gone: Collection[str] = ()) -> _Pushed:
        """Make a commit of the new files, and without those that are `gone`, the tip, unless somebody was faster."""
        commit = self._build(new, message, gone)
        try:
            said = self._git.run("push", "--porcelain", "origin", f"{commit}:{self._ref}")
        except GitError as error:
            if _LOST_RACE.search(error.said):
                return _Pushed.NO
            if _REFUSED.search(error.said):
                way_out = f"The bot must be able to push to the branch '{self._branch}': `pullrank setup --check`"
                raise LedgerError(f"{error}\n{way_out}") from None
            return _Pushed.PERHAPS
        if b"\n=\t" in said:  # up to date: another wrote the same in the same second, and so the same commit
            return _Pushed.NO
        if self._tip:
            self._known = {path: blob for path, blob in {**self._known, **new}.items() if path not in gone}
        else:
            self._known = self._list(commit)
        self._tip = commit
        return _Pushed.YES

    def _unknown(self, ours: Mapping[str, str]) -> dict[str, str]:
        """What of ours is not on the branch."""
        return {path: blob for path, blob in ours.items() if path not in self._known}

    def _settle(self, ours: Collection[str], standing: Collection[str]) -> tuple[Path, ...]:
        """Bring the folder to the tip; what others wrote under the same name takes the place of ours."""
        lost = set(ours).difference(standing)
        shown = self._choose(self._wanted) | self._choose(lambda _: ours)
        if {path: blob for path, blob in shown.items() if path not in ours} == self._checked_out and not lost:
            # Ours lie there already; of the others a file may have been changed here by mistake.
            self._git.run("checkout-index", "--all", "--force", "--quiet")
            self._checked_out = shown
        else:
            self._take_back(lost, shown)
        return tuple(map(Path, sorted(standing)))

    def _take_back(self, ours: Collection[str], shown: dict[str, str]) -> None:
        """Remove what was added, and show the tip's instead."""
        for path in ours:
            (self._folder / path).unlink()
        self._show(shown)


def _data(content: bytes) -> bytes:
    """As fast-import reads it."""
    return b"data %d\n%s" % (len(content), content)


def _quoted(path: str) -> str:
    """As fast-import reads any name: what is on the branch may have been put there by hand."""
    escaped = path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _wait_s(attempt: int) -> float:
    """Longer each time, and never twice the same: whoever lost together must not meet again."""
    return random.uniform(0, min(LONGEST_WAIT_S, 0.05 * 2**attempt))  # noqa: S311 (nobody gains by guessing it)
