"""Check a request again before its file is judged, because anything may have changed since.  Pure.

A request is refused if its author is banned, if the folder is somebody else's, if the pull request changes more than
the requested file, if people cannot read the file, or if the board does not exist or is closed.

Refusals are Markdown for the author, with a participant's words in code.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.task.bundle import sha256
from harness.task.task import Task
from scripts.bot.admission.admission import (
    Competition,
    Refused,
    require_kernel,
    require_plain,
    require_welcome,
    why_unranked,
)
from scripts.bot.admission.path_rule import Misplaced, SubmissionPath, classify
from scripts.github.pulls import BlobInfo, ChangedFile
from scripts.ledger.moderation import find_owner
from scripts.ledger.request import Request


def require_as_requested(
    request: Request,
    task: Task,
    competition: Competition,
    *,
    files: Sequence[ChangedFile],
    blob: BlobInfo | None,
    source: bytes,
) -> None:
    """Raise Refused unless a request's file is as requested, and may still be judged."""
    require_welcome(request.user_id, request.login, competition)
    owner = find_owner(competition.accounts, request.login)
    if owner and owner.user_id != request.user_id:
        raise Refused(f"The folder `{request.login}` belongs to account {owner.user_id}, which had that login before.")
    wanted = SubmissionPath(task=request.task, login=request.login, name=task.name_of(request.digest))
    change = classify(files, request.login)
    if isinstance(change, Misplaced):
        raise Refused(change.reason)
    if change != wanted:
        raise Refused(f"The pull request must change `{wanted.path}` and nothing else.")
    if blob is None:
        raise Refused("The file no longer exists. Push again.")
    found = require_plain(wanted, blob, competition)
    if found.sha != request.blob_sha or request.digest not in (None, sha256(source)):
        raise Refused("The file is not the one that was requested. Push again.")
    require_kernel(wanted, source, task)
    _require_board(request, task, competition)


def _require_board(request: Request, task: Task, competition: Competition) -> None:
    if request.gpu not in task.gpus:
        raise Refused(f"`{task.name}` no longer has a board `{request.gpu}`.")
    if request.gpu not in competition.settings.gpus:
        raise Refused(f"There is no longer a machine for `{request.gpu}` here. Ask a maintainer.")
    if request.case and not task.board(request.gpu).benchmarks_to_profile(request.case):
        raise Refused(f"`{task.name}` no longer has a benchmark {request.case} on `{request.gpu}`.")
    # The time of the request counts, so waiting in the queue makes no submission late.
    if request.is_ranked and not request.is_rematch and not task.is_open(request.in_time_at):
        raise Refused(f"{why_unranked(task)} `/test` still works.")
