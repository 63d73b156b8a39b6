"""Check a request again before its file is judged, because anything may have changed since.  Pure.

A request is refused if its author is banned, if the folder is somebody else's, if the pull request changes more than
the requested file, if people cannot read the file, or if the board does not exist or is closed.

Refusals are Markdown for the author, with a participant's words in code.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from harness.task.bundle import sha256
from harness.task.task import Task
from scripts.bot.admission.admission import find_invisible
from scripts.bot.admission.path_rule import Misplaced, SubmissionPath, classify
from scripts.common.text import inline
from scripts.github.pulls import BlobInfo, ChangedFile
from scripts.ledger.moderation import KnownAccount
from scripts.ledger.request import Request


def why_refused(
    request: Request,
    *,
    files: Sequence[ChangedFile],
    blob: BlobInfo | None,
    owner: KnownAccount | None,
    task: Task,
    max_bytes: int,
    gpus: Collection[str],
    ban: str = "",
) -> str | None:
    """Why a request's file must not be judged, without looking at its content; None if it may.

    Args:
        owner: of the file's folder.
        gpus: those that have a machine.
        ban: why its author is banned.
    """
    if ban:
        return f"Pull requests of this account are not judged: {inline(ban)}. Ask a maintainer."
    if owner and owner.user_id != request.user_id:
        return f"The folder `{request.login}` belongs to account {owner.user_id}, which had that login before."
    wanted = SubmissionPath(task=request.task, login=request.login, name=task.name_of(request.digest))
    return _why_not_the_file(request, wanted, files, blob, max_bytes) or _why_no_board(request, task, gpus)


def _why_not_the_file(
    request: Request, wanted: SubmissionPath, files: Sequence[ChangedFile], blob: BlobInfo | None, max_bytes: int
) -> str | None:
    change = classify(files, request.login)
    if isinstance(change, Misplaced):
        return change.reason
    if change != wanted:
        return f"The pull request must change `{wanted.path}` and nothing else."
    if not blob:
        return "The file no longer exists."
    if blob.sha != request.blob_sha:
        return "The file is not the one that was requested. Push again."
    if not blob.is_plain:
        return f"The file's mode is {inline(blob.mode)}; it must be a plain file (100644), not a link or executable."
    if blob.size > max_bytes:
        return f"The file is larger than {max_bytes // 1024} KiB."
    return None


def _why_no_board(request: Request, task: Task, gpus: Collection[str]) -> str | None:
    if request.gpu not in task.gpus:
        return f"`{task.name}` no longer has a board `{request.gpu}`."
    if request.gpu not in gpus:
        return f"There is no longer a machine for `{request.gpu}` here. Ask a maintainer."
    if request.case and not task.board(request.gpu).benchmarks_to_profile(request.case):
        return f"`{task.name}` no longer has a benchmark {request.case} on `{request.gpu}`."
    # The time of the request counts, so waiting in the queue makes no submission late.
    if request.is_ranked and not request.is_rematch and not task.is_open(request.in_time_at):
        when = f" at {task.deadline:%Y-%m-%d %H:%M} UTC" if task.deadline else ""
        return f"`{task.name}` closed{when}; `/test` still works."
    return None


def why_unreadable(source: bytes, request: Request) -> str | None:
    """Why people cannot read this file as Python or nvcc will; None if they can."""
    if request.digest not in (None, sha256(source)):
        return "The file's SHA-256 is not the requested one. Push again."
    if b"\0" in source:
        return "The file is binary, not source code."
    try:
        found = find_invisible(source.decode().removeprefix("\ufeff"))
    except UnicodeDecodeError as error:
        line = source.count(b"\n", 0, error.start) + 1
        return f"Line {line} is not UTF-8: byte 0x{source[error.start]:02x}."
    return f"Line {found[0]} contains the invisible character U+{ord(found[1]):04X}. Remove it." if found else None
