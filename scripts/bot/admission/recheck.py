"""Check a request again before its file is judged, because anything may have changed since.  Pure.

A request is refused if its author is banned, if the folder is somebody else's, if the pull request changes more than
the requested file, if people cannot read the file, or if the board does not exist or is closed.

Refusals are Markdown for the author, with a participant's words in code.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from datetime import datetime

from harness.task.bundle import sha256
from harness.task.task import Task
from scripts.bot.admission.path_rule import Misplaced, SubmissionPath, classify, entry_path
from scripts.common.text import inline
from scripts.github.pulls import BlobInfo, ChangedFile
from scripts.ledger.moderation import KnownAccount
from scripts.ledger.request import Request


@dataclass(frozen=True, kw_only=True)
class RecheckFacts:
    """Everything that decides whether a request's file may be judged, except the file's content.

    `ban` says why its author is banned; `gpus` are those that have a machine.
    """

    request: Request
    files: tuple[ChangedFile, ...]
    blob: BlobInfo | None
    owner: KnownAccount | None
    task: Task
    max_bytes: int
    gpus: tuple[str, ...]
    ban: str = ""


def why_refused(facts: RecheckFacts) -> str | None:
    """Why a request's file must not be judged, without looking at its content; None if it may."""
    if facts.ban:
        return f"Pull requests of this account are not judged: {inline(facts.ban)}. Ask a maintainer."
    return _why_not_theirs(facts) or _why_not_the_file(facts) or _why_no_board(facts)


def _why_not_theirs(facts: RecheckFacts) -> str | None:
    request = facts.request
    if facts.owner and facts.owner.user_id != request.user_id:
        return f"The folder `{request.login}` belongs to account {facts.owner.user_id}, which had that login before."
    return None


def _why_not_the_file(facts: RecheckFacts) -> str | None:
    request, blob = facts.request, facts.blob
    match classify(facts.files, request.login):
        case Misplaced(reason=reason):
            return reason
        case SubmissionPath(task=request.task, login=request.login, name=facts.task.submission_name):
            pass
        case _:
            wanted = entry_path(request.task, request.login, facts.task.submission_name)
            return f"The pull request must change `{wanted}` and nothing else."
    if not blob:
        return "The file no longer exists."
    if blob.sha != request.blob_sha:
        return "The file is not the one that was requested. Push again."
    if not blob.is_plain:
        return f"The file's mode is {inline(blob.mode)}; it must be a plain file (100644), not a link or executable."
    if blob.size > facts.max_bytes:
        return f"The file is larger than {facts.max_bytes // 1024} KiB."
    return None


def _why_no_board(facts: RecheckFacts) -> str | None:
    task, request = facts.task, facts.request
    if request.gpu not in task.gpus:
        return f"`{task.name}` no longer has a board `{request.gpu}`."
    if request.gpu not in facts.gpus:
        return f"There is no longer a machine for `{request.gpu}` here. Ask a maintainer."
    # The time of the request counts, so waiting in the queue makes no submission late.
    if request.is_ranked and not request.is_rematch and not task.is_open(request.in_time_at):
        return f"`{task.name}` closed{_when(task.deadline)}; `/test` still works."
    return None


def _when(deadline: datetime | None) -> str:
    return f" at {deadline:%Y-%m-%d %H:%M} UTC" if deadline else ""


def why_unreadable(source: bytes, request: Request) -> str | None:
    """Why people cannot read this file as Python or nvcc will; None if they can."""
    if request.digest not in (None, sha256(source)):
        return "The file's SHA-256 is not the requested one. Push again."
    if b"\0" in source:
        return "The file is binary, not source code."
    try:
        text = source.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = source.count(b"\n", 0, error.start) + 1
        return f"Line {line} is not UTF-8: byte 0x{source[error.start]:02x}."
    for number, line_text in enumerate(text.split("\n"), 1):
        # Format characters change the direction of text or have no width.
        if hidden := next((char for char in line_text if unicodedata.category(char) == "Cf"), None):
            return f"Line {number} contains the invisible character U+{ord(hidden):04X}. Remove it."
    return None
