"""The ledger: a folder of facts, one file each, added and never changed.

    judgements/<task>/<gpu>/<login>/<pull request>-<head12>-<request id>.json      ranked judgements

Off GitHub there is no pull request and no head: `local` and the file's own digest stand for them.  What is
read here may have been torn by a crash or edited by a hand: such a file, or a folder that cannot be read, is
named and left out, and the rest is read as if it were not there.
"""

from __future__ import annotations

import os
import re
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path

from harness.errors import PullRankError
from harness.judgement import MAX_BYTES, Judgement, JudgementError, Mode

_REQUEST_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


class LedgerError(PullRankError):
    """A fact cannot be added to the ledger."""


@dataclass(frozen=True, kw_only=True)
class LedgerFault:
    """A file that is no fact, or a folder that cannot be read, and why; `path` is relative to the ledger."""

    path: Path
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


@dataclass(frozen=True, kw_only=True)
class LedgerContents:
    """`judgements` in ledger order: as they finished, and by path where two finished at once."""

    judgements: tuple[Judgement, ...]
    faults: tuple[LedgerFault, ...]


class Ledger:
    """A ledger in the folder `path`, which need not exist before the first fact."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, judgement: Judgement, request_id: str) -> Path:
        """Add a judgement: whole or not at all, and never over another.

        Raises:
            LedgerError: it is not a ranked one, the request's id is no name for a file, or the file exists.
        """
        if judgement.mode is not Mode.RANKED:
            raise LedgerError(f"only ranked judgements are kept in a ledger, not one of mode '{judgement.mode}'")
        if not _REQUEST_ID.fullmatch(request_id):
            raise LedgerError(f"{request_id!r} cannot be a request's id: letters, digits, '.', '_' and '-', at most 64")
        path = self.path / "judgements" / _folder_of(judgement) / f"{_prefix_of(judgement)}{request_id}.json"
        _write_new(path, judgement.to_json().encode(), workshop=self.path)
        return path

    def judgements(self, task: str | None = None, gpu: str | None = None) -> LedgerContents:
        """All judgements, or those of one task, one GPU, or both; and every file among them that is none."""
        found: list[tuple[Judgement, Path]] = []
        faults: list[LedgerFault] = []
        paths: dict[str, Path] = {}  # by checksum
        for path in self._paths(faults):
            if not _may_concern(path, task, gpu):
                continue
            try:
                judgement = _read(self.path / path, path)
                first = paths.setdefault(judgement.checksum, path)
                if first != path:
                    raise JudgementError(f"the same judgement as {first}")
                found.append((judgement, path))
            except JudgementError as error:
                faults.append(LedgerFault(path=path, reason=str(error)))
        found.sort(key=lambda pair: (pair[0].finished_at, pair[1]))
        relevant = tuple(fault for fault in faults if _may_concern(fault.path, task, gpu))
        return LedgerContents(judgements=tuple(map(itemgetter(0), found)), faults=relevant)

    def _paths(self, faults: list[LedgerFault]) -> Iterator[Path]:
        """Whatever lies under `judgements/`, in order, relative to the ledger; unreadable folders are faults."""
        top = self.path / "judgements"

        def note(error: OSError) -> None:
            folder = Path(error.filename)
            # Before the first fact there is nothing to read.
            if folder != top or os.path.lexists(top):
                reason = f"cannot be read: {error.strerror}"
                faults.append(LedgerFault(path=folder.relative_to(self.path), reason=reason))

        for folder, subfolders, files in os.walk(top, onerror=note):
            subfolders.sort()
            # A link to a folder is not followed, and must not vanish silently.
            links = [name for name in subfolders if os.path.islink(os.path.join(folder, name))]
            for name in sorted([*files, *links]):
                yield Path(folder, name).relative_to(self.path)


def _may_concern(path: Path, task: str | None, gpu: str | None) -> bool:
    """Whether what lies at a path of the ledger is of this task and GPU; a folder above them may hold their facts."""
    return all(wanted in (None, part) for wanted, part in zip((task, gpu), path.parts[1:3], strict=False))


def _folder_of(judgement: Judgement) -> Path:
    return Path(judgement.task, judgement.gpu, judgement.submission.login)


def _prefix_of(judgement: Judgement) -> str:
    submission = judgement.submission
    return f"{submission.pull_request or 'local'}-{(submission.head_sha or submission.digest)[:12]}-"


def _read(file: Path, path: Path) -> Judgement:
    """The judgement in `file`, which lies at `path` in the ledger, or a JudgementError."""
    try:
        facts = file.lstat()
        if not stat.S_ISREG(facts.st_mode):
            raise JudgementError("not a plain file")
        if facts.st_size > MAX_BYTES:
            raise JudgementError(f"larger than {MAX_BYTES // 2**20} MiB")
        judgement = Judgement.from_json(file.read_bytes())
    except OSError as error:
        raise JudgementError(f"cannot be read: {error.strerror}") from None
    _require_in_place(judgement, path)
    return judgement


def _require_in_place(judgement: Judgement, path: Path) -> None:
    if judgement.mode is not Mode.RANKED:
        raise JudgementError(f"of mode '{judgement.mode}'; only ranked judgements belong here")
    expected = Path("judgements") / _folder_of(judgement)
    if path.parent != expected:
        raise JudgementError(f"its contents belong into {expected}/")
    prefix = _prefix_of(judgement)
    request_id = path.name.removeprefix(prefix).removesuffix(".json")
    if path.name != f"{prefix}{request_id}.json" or not _REQUEST_ID.fullmatch(request_id):
        raise JudgementError(f"its contents belong into a file named {prefix}<request id>.json")


def _write_new(path: Path, content: bytes, *, workshop: Path) -> None:
    """Write a file that appears whole or not at all.  Half of one may only ever lie in the workshop."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=workshop, prefix=".incoming-") as draft:
        draft.write(content)
        draft.flush()
        os.fsync(draft.fileno())
        os.fchmod(draft.fileno(), 0o644)
        try:
            # A link, not a rename: it fails where the name is taken.
            os.link(draft.name, path)
        except FileExistsError:
            raise LedgerError(f"{path} exists already; a ledger's files are never written over") from None
