"""May a pull request's file be judged, and on which boards?  Pure: facts in; an admission or a refusal out.

    author   not banned; owns the folder of the login with which the account first took part
    file     one plain file in its place, not too large; no invisible characters; defines custom_kernel
    task     exists, in the file's language; has boards, and a machine for them
    new      not somebody else's earlier or merged file under other names

Each `require_` raises a `Refused` that tells the author, in Markdown, what is wrong and how to fix it.  A participant's
words are always in code.  `intake` checks deadline and quota, because they depend on the mode.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.records.errors import PullRankError, did_you_mean
from harness.task.submission import Submission, read_directives
from harness.task.task import Task
from scripts.bot.admission.copies import Original, find_original
from scripts.bot.admission.path_rule import (
    FOLDER,
    Contribution,
    Misplaced,
    RemovedSubmission,
    SubmissionPath,
    TaskChange,
    classify,
    entry_path,
)
from scripts.common.text import INVISIBLE_LETTERS, inline
from scripts.competition.boards import offered
from scripts.competition.settings import Settings
from scripts.github.pulls import Account, BlobInfo, ChangedFile
from scripts.ledger.moderation import KnownAccount, Moderated, find_owner
from scripts.ledger.origin import Origin, find_earlier


class Refused(PullRankError):
    """The file is not judged; the message is Markdown for its author."""


@dataclass(frozen=True, kw_only=True)
class Competition:
    """The current settings, participants, maintainers' decisions and task names."""

    settings: Settings
    accounts: tuple[KnownAccount, ...] = ()
    moderated: Moderated = field(default_factory=Moderated)
    task_names: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class PullContents:
    """The contents of a pull request, as admission reads them.  Fields that are not needed are not read and stay empty.

    `merged` are the merged files of others for the task, `given` the task's own templates and examples.  `origin`
    records that the author submits this file here, and `origins` are each account's first submission of it in the
    ledger.  A file that anybody may submit, such as a template, has neither.
    """

    files: tuple[ChangedFile, ...] = ()
    blob: BlobInfo | None = None
    source: bytes = b""
    task: Task | None = None
    merged: tuple[Original, ...] = ()
    given: tuple[bytes, ...] = ()
    origin: Origin | None = None
    origins: tuple[Origin, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Admission:
    """A file that may be judged, and the boards that it is for."""

    entry: SubmissionPath
    task: Task
    blob: BlobInfo
    digest: str
    gpus: tuple[str, ...]
    boards: tuple[str, ...]
    """All boards of the task; `gpus` are those that the file names, or all."""


def find_known(author: Account, competition: Competition) -> KnownAccount | None:
    """The author's entry in the register; None if they have never taken part."""
    return next((account for account in competition.accounts if account.user_id == author.id), None)


def folder_of(author: Account, competition: Competition) -> str:
    """The login with which an account first took part, whatever its name is today.

    Raises:
        Refused: the folder of its login belongs to another account, which had that login before.
    """
    if known := find_known(author, competition):
        return known.login
    owner = find_owner(competition.accounts, author.login)
    if owner:
        raise Refused(
            f"The folder `{owner.login}` belongs to another account, which took part with that login before you had "
            "it. Rename your account, or ask a maintainer."
        )
    return author.login


def require_welcome(user_id: int, login: str, competition: Competition) -> None:
    """Raise Refused if an account is banned."""
    if reason := why_banned(user_id, login, competition.settings, competition.moderated):
        raise Refused(f"Pull requests of this account are not judged: {inline(reason)}. Ask a maintainer.")


def why_banned(user_id: int, login: str, settings: Settings, moderated: Moderated) -> str:
    """The reason for an account's ban, under which nothing of it is judged or merged; empty if it is not banned."""
    ban = settings.find_ban(user_id, login) or moderated.banned.get(user_id)
    return ban.reason if ban else ""


def find_entry(
    files: Sequence[ChangedFile], author: Account, competition: Competition
) -> SubmissionPath | RemovedSubmission | TaskChange | Contribution:
    """The kind of an author's pull request, by its changed files.

    Raises:
        Refused: it looks like a submission, but is not in its place.
    """
    login = folder_of(author, competition)
    change = classify(files, login)
    if isinstance(change, Misplaced):
        renamed = f" You first took part as `{login}`, and your folders keep that name even if you rename your account."
        raise Refused(change.reason + (renamed if author.login != login else ""))
    return change


def removed_task(files: Sequence[ChangedFile], author: Account, competition: Competition) -> str:
    """The task whose submission the author removes by their pull request; empty if it does anything else."""
    try:
        change = find_entry(files, author, competition)
    except Refused:
        return ""
    return change.task if isinstance(change, RemovedSubmission) else ""


def admit(entry: SubmissionPath, contents: PullContents, competition: Competition) -> Admission:
    """Admit a file in its place to judging.

    Raises:
        Refused: names the first thing that is wrong with it.
    """
    digest = hashlib.sha256(contents.source).hexdigest()
    task = require_task(entry, contents, competition, digest)
    blob = require_plain(entry, contents.blob, competition)
    require_kernel(entry, contents.source, task)
    require_original(entry, contents, competition)
    boards = require_boards(task, competition)
    wanted = require_directives(entry, contents.source)
    if task.baseline_name(digest):  # It comes with the task, and may name GPUs that this competition does not have.
        wanted = tuple(gpu for gpu in wanted if gpu in boards) or wanted
    return Admission(
        entry=entry,
        task=task,
        blob=blob,
        digest=digest,
        gpus=require_gpus(wanted, task, boards, competition) or boards,
        boards=boards,
    )


def require_task(entry: SubmissionPath, contents: PullContents, competition: Competition, digest: str) -> Task:
    """The task of that name, if it takes that language."""
    if not contents.task:
        near = did_you_mean(entry.task, competition.task_names).replace("'", "`") or "."
        tasks = ", ".join(f"`{name}`" for name in competition.task_names) or "none yet"
        raise Refused(f"There is no task {inline(entry.task)}{near} The tasks: {tasks}.")
    name = contents.task.name_of(digest)
    if entry.name != name:
        wanted = entry_path(entry.task, entry.login, name)
        raise Refused(f"The task `{entry.task}` takes no {entry.name.rpartition('.')[2]} file. Write `{wanted}`.")
    return contents.task


# The file.


def require_plain(entry: SubmissionPath, blob: BlobInfo | None, competition: Competition) -> BlobInfo:
    """The file's blob, if it is a plain file and not too large."""
    if blob is None:
        raise Refused(f"`{entry.path}` is not a file. Add a plain file, not a link or a submodule.")
    if not blob.is_plain:
        kinds = {"120000": "a symbolic link", "100755": "executable (`git update-index --chmod=-x` fixes it)"}
        kind = kinds.get(blob.mode, f"of mode {inline(blob.mode)}")
        raise Refused(f"`{entry.path}` is {kind}. A submission must be a plain file.")
    limit_kib = competition.settings.limits.file_kib
    if blob.size > limit_kib * 1024:
        raise Refused(
            f"`{entry.path}` is larger than {limit_kib} KiB. Compute tables and data instead of storing them."
        )
    return blob


def require_kernel(entry: SubmissionPath, source: bytes, task: Task) -> None:
    """Raise Refused unless the text is readable and, for refereed tasks, defines `custom_kernel`."""
    submission = Submission(login=entry.login, source=source, name=entry.name)
    if fault := submission.find_fault(needs_kernel=task.is_refereed):
        raise Refused(f"This file cannot be judged: {inline(fault, 400)}")
    if found := find_invisible(submission.text):
        line, char = found
        raise Refused(
            f"Line {line} contains the invisible character U+{ord(char):04X}, so readers cannot see what is run. "
            "Remove it."
        )


def find_invisible(text: str) -> tuple[int, str] | None:
    """The first character that has no width or changes the direction of the text, and its line."""
    if text.isascii():
        return None
    for number, line in enumerate(text.split("\n"), 1):
        if hidden := next((char for char in line if _is_invisible(char)), None):
            return number, hidden
    return None


def _is_invisible(char: str) -> bool:
    # Of the others, those that can begin a name: a whole name may consist of them.  Marks occur in honest comments.
    return unicodedata.category(char) == "Cf" or (char.isidentifier() and bool(INVISIBLE_LETTERS.match(char)))


def require_directives(entry: SubmissionPath, source: bytes) -> tuple[str, ...]:
    """The GPUs that the file names.  Raises Refused if its leaderboard is not the folder's task."""
    directives = read_directives(source.decode("utf-8-sig", "replace"), entry.name)
    if directives.leaderboard not in (None, entry.task):
        raise Refused(
            f"The file is in the folder of `{entry.task}`, but its directive says "
            f"{inline(f'leaderboard {directives.leaderboard}')}. Move the file, or write "
            f"`#!POPCORN leaderboard {entry.task}`."
        )
    return directives.gpus


def require_original(entry: SubmissionPath, contents: PullContents, competition: Competition) -> None:
    """Raise Refused if the file is a copy of one that somebody else offered earlier, or that was merged."""
    if contents.origin:
        known = (contents.origin, *contents.origins)
        require_first(contents.origin.user_id, known, competition)
    # `require_first` has compared these authors' files by date; merged files without a date are compared below.
    dated = {one.login.casefold() for one in contents.origins}
    merged = [one for one in contents.merged if one.login.casefold() not in dated]
    original = find_original(contents.source, entry.name, merged, contents.given)
    if original:
        raise Refused(
            f"Except for names, comments and layout, this is the merged submission of `{original.login}` for "
            f"`{entry.task}`. "
            "Learn from it, but submit your own work. If it is yours, ask a maintainer."
        )


def require_first(user_id: int, origins: Iterable[Origin], competition: Competition) -> None:
    """Raise Refused if somebody else offered this account's file earlier.  Those of banned accounts do not count."""
    settings, moderated = competition.settings, competition.moderated
    counted = [
        one for one in origins if one.user_id == user_id or not why_banned(one.user_id, one.login, settings, moderated)
    ]
    if first := find_earlier(user_id, counted):
        raise Refused(
            f"Except for names, comments and layout, this is the file that `{first.login}` submitted for "
            f"`{first.task}` in #{first.pull_request} at {first.at:%Y-%m-%d %H:%M} UTC. "
            "Learn from it, but submit your own work. If it is yours, ask a maintainer."
        )


def merged_by_others(root: Path, entry: SubmissionPath) -> tuple[Original, ...]:
    """A task's merged files on the default branch, without one author's."""
    files = sorted((root / FOLDER / entry.task).glob(f"*/{entry.name}"))
    others = [file for file in files if file.parent.name.lower() != entry.login.lower() and not file.is_symlink()]
    return tuple(Original(login=file.parent.name, name=file.name, source=file.read_bytes()) for file in others)


# The boards.


def require_boards(task: Task, competition: Competition) -> tuple[str, ...]:
    """The task's boards that have a machine."""
    boards = offered(task, competition.settings.gpus).gpus
    if not boards:
        raise Refused(
            f"No machine here judges `{task.name}` yet. It can run on {_names(task.gpus)}: ask a maintainer to "
            "add such a machine."
        )
    return boards


def why_unranked(task: Task) -> str:
    """Why nothing is ranked for a task that is not open."""
    if not task.ranks:
        return f"`{task.name}` is for practice only: its code was rewritten for another device."
    return f"`{task.name}` closed at {task.deadline:%Y-%m-%d %H:%M} UTC."


def require_gpus(wanted: Sequence[str], task: Task, boards: Sequence[str], competition: Competition) -> tuple[str, ...]:
    """The boards that a file or a command names.  Raises Refused if one does not exist."""
    for gpu in wanted:
        if gpu in boards:
            continue
        near = did_you_mean(gpu, boards).replace("'", "`") or "."
        what = "There is no machine here for"
        if gpu in competition.settings.gpus:
            what = f"The task `{task.name}` has no board for"
        raise Refused(f"{what} {inline(gpu)}{near} The boards of `{task.name}` here: {_names(boards)}.")
    return tuple(dict.fromkeys(wanted))


def _names(gpus: Sequence[str]) -> str:
    return ", ".join(f"`{gpu}`" for gpu in gpus)
