"""Check a file before it leaves this machine, with the functions that intake itself uses."""

from __future__ import annotations

import codecs
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from harness.records.errors import PullRankError
from harness.task.submission import Submission, read_directives
from harness.task.task import Task
from scripts.bot.admission.admission import (
    Admission,
    Competition,
    PullContents,
    Refused,
    admit,
    folder_of,
    merged_by_others,
)
from scripts.bot.admission.path_rule import SubmissionPath
from scripts.common.git_command import blob_sha
from scripts.competition.repository import ROOT
from scripts.competition.settings import Settings
from scripts.github.contribute import Contributor
from scripts.github.pulls import Account, BlobInfo
from scripts.ledger.branch import BRANCH
from scripts.ledger.facts import FactError
from scripts.ledger.moderation import KnownAccount
from scripts.ledger.names import account_of


class SubmitError(PullRankError):
    """The file cannot be submitted; the message says what to do."""


@dataclass(frozen=True, kw_only=True)
class PreparedSubmission:
    """The submission as sent: the bytes to commit, their path, and the boards.  `login` is its folder's."""

    task: Task
    login: str
    source: bytes
    path: str
    gpus: tuple[str, ...]

    @property
    def branch(self) -> str:
        """One branch per task, so that it is found again, and per author, as several may push to one repository."""
        return f"pullrank/{self.login}/{self.task.name}"


def with_gpus(submission: Submission, gpus: tuple[str, ...], task: Task) -> Submission:
    """Add a first line to the file that restricts it to these boards of its task.

    Raises:
        SubmitError: the file names other boards already, or must not be changed.
    """
    gpus = tuple(dict.fromkeys(gpus))
    if not gpus:
        return submission
    if baseline := task.baseline_name(submission.digest):
        raise SubmitError(
            f"--gpu {' --gpu '.join(gpus)} would change the file, which is the baseline '{baseline}' only as it "
            "is. Submit it without --gpu"
        )
    own = read_directives(submission.text, submission.name).gpus
    if own:
        if set(own) == set(gpus):
            return submission
        raise SubmitError(
            f"--gpu {' --gpu '.join(gpus)}: the file's own directive says {' '.join(own)}; change it there"
        )
    mark = "//" if submission.name.endswith(".cu") else "#"
    line = f"{mark}!PULLRANK gpus {' '.join(gpus)}\n".encode()
    return replace(submission, source=line + submission.source.removeprefix(codecs.BOM_UTF8))


def read_accounts(contributor: Contributor) -> tuple[KnownAccount, ...]:
    """The author as first seen, and others who had the author's login before; read from the ledger."""
    files = {f"accounts/{path}": sha for path, sha in contributor.files_of("accounts", BRANCH).items()}
    accounts: list[KnownAccount] = []
    for path in account_of(contributor.me.id, contributor.me.login)(files):
        with suppress(FactError):
            accounts.append(KnownAccount.from_json(contributor.content_of(files[path])))
    return tuple(accounts)


def prepare(
    submission: Submission,
    task: Task,
    author: Account,
    settings: Settings,
    accounts: tuple[KnownAccount, ...],
    *,
    draft: bool,
) -> PreparedSubmission:
    """Prepare a file as intake would admit it.

    Args:
        submission: has the name that the task requires.
        accounts: of `read_accounts`.

    Raises:
        SubmitError: intake would refuse it; the message is intake's.
    """
    if not (draft or task.is_open(datetime.now(UTC))):
        why = "is closed and ranks nothing any more" if task.ranks else "is for practice only"
        raise SubmitError(f"{task.name} {why}. With --draft it is tested and timed")
    competition = Competition(settings=settings, accounts=accounts)
    try:
        entry = SubmissionPath(task=task.name, login=folder_of(author, competition), name=submission.name)
        admitted = _admit(entry, submission, task, competition)
    except Refused as refused:
        raise SubmitError(str(refused).replace("`", "'")) from None
    return PreparedSubmission(
        task=task, login=entry.login, source=submission.source, path=entry.path, gpus=admitted.gpus
    )


def _admit(entry: SubmissionPath, submission: Submission, task: Task, competition: Competition) -> Admission:
    source = submission.source
    blob = BlobInfo(sha=blob_sha(source), mode="100644", size=len(source))
    contents = PullContents(
        blob=blob,
        source=source,
        task=task,
        merged=merged_by_others(ROOT, entry),
        given=tuple(path.read_bytes() for path in (*task.templates.values(), *(one.path for one in task.examples))),
    )
    return admit(entry, contents, competition)


def find_stale(folder: Path, theirs: dict[str, str]) -> list[str]:
    """The files of a local task that differ from the repository's.

    Args:
        theirs: blob hashes by path inside the task's folder.
    """
    return sorted(
        path
        for path, sha in theirs.items()
        if not (folder / path).is_file() or blob_sha((folder / path).read_bytes()) != sha
    )
