"""`pullrank ci resolve`: a request in, the bundle for its judging out; or the reason why nothing is judged.

    ledger ─► request ─► still wanted?     not ended, the same head, open, no draft if ranked     else: passed over
    git    ─► one file ─► allowed?         the path rule on pinned commits, login and numeric id,
                                           mode, size, hash, readable text, an open board         else: ResolveError
    main   ─► task, champion, harness ─► bundle.zip, and harness.pyz beside it

Intake has looked at all of this before.  It is looked at again, because between the two anything may have changed,
and because a request can be dispatched by hand.  `why_passed_over`, `why_refused` and `why_unreadable` are pure.
"""

from __future__ import annotations

import math
import shutil
import unicodedata
from dataclasses import dataclass
from datetime import datetime
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING

from harness.bundle import HARNESS, sha256
from harness.errors import PullRankError
from harness.fields import Mode
from harness.stats import LONGEST_EXTENDED_DUEL_S
from harness.submission import Champion
from harness.task import Board, Task
from harness.toolchain import Toolchain
from scripts.bot.champion import find_champion
from scripts.bot.packing import pack
from scripts.bot.path_rule import Entry, Misplaced, classify, entry_path
from scripts.bot.pyz import build_pyz, judge_lock
from scripts.github.fork import Fork
from scripts.github.pulls import BlobInfo, ChangedFile, PullRequest
from scripts.ledger.ledger import Ledger, RequestStatus
from scripts.ledger.moderation import KnownAccount, find_owner
from scripts.ledger.request import Request
from scripts.repository import ROOT, require_task
from scripts.settings import Settings
from scripts.text import inline

if TYPE_CHECKING:
    from scripts.github.gh import GitHub

HOSTED_SETUP = Path(".github/runner/hosted.sh")
"""What makes one of GitHub's own machines a judge; it installs from judge.lock."""

_SPARE_MINUTES = 10
"""For what a job does beside judging: start, download, import torch."""
_MAX_MINUTES = 350
"""GitHub's own machines end every job after six hours."""


class ResolveError(PullRankError):
    """What was asked for must not be judged."""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """All that decides whether a request's file may be judged, but for the file's content."""

    status: RequestStatus
    pull: PullRequest
    files: tuple[ChangedFile, ...]
    blob: BlobInfo | None
    owner: KnownAccount | None
    task: Task
    max_bytes: int

    @property
    def request(self) -> Request:
        return self.status.request


@dataclass(frozen=True, kw_only=True)
class Resolution:
    """What became of a request: its bundle, or in `note` why it is passed over."""

    request: Request
    wanted: bool
    note: str
    digest: str = ""
    runs_on: str = ""
    minutes: int = 0

    @property
    def outputs(self) -> dict[str, str]:
        """The step's outputs, none of which holds a word of a participant."""
        if not self.wanted:
            return {"wanted": "false"}
        return {"wanted": "true", "digest": self.digest, "runs-on": self.runs_on, "minutes": str(self.minutes)}


def resolve(
    request_id: str, out: Path, *, github: GitHub, fork: Fork, ledger: Ledger, settings: Settings, root: Path = ROOT
) -> Resolution:
    """Write `bundle.zip` and what runs it into the folder `out`, if the request is still wanted.

    Raises:
        ResolveError: the request is unknown, or its file must not be judged.
    """
    status = require_request(ledger, request_id)
    request = status.request
    pull = github.get_pull(request.pull_request)
    if reason := why_passed_over(status, pull):
        return Resolution(request=request, wanted=False, note=f"{request.id}: {reason}")
    task = require_task(request.task, root / "tasks")
    path, max_bytes = entry_path(request.task, request.login, task.submission_name), settings.limits.file_kib * 1024
    files = fork.changes(request.head_sha)
    blob, source = fork.read(request.head_sha, path, max_bytes)
    owner = find_owner(ledger.accounts(), request.login)
    facts = Facts(status=status, pull=pull, files=files, blob=blob, owner=owner, task=task, max_bytes=max_bytes)
    if reason := why_refused(facts) or why_unreadable(source, request):
        raise ResolveError(f"{request.id}: {reason}")
    board, gpu = task.board(request.gpu), settings.gpu(request.gpu)
    champion = find_champion(board, ledger, request, source, fork, root)
    return Resolution(
        request=request,
        wanted=True,
        note=f"{request.id}: {len(source)} bytes, {'to be dueled if fast enough' if champion else 'no duel is due'}",
        digest=_write_bundle(out, request, task, source, champion, gpu.toolchain, root),
        runs_on=gpu.runs_on_json,
        minutes=minutes_for(board, request.mode, dueled=champion is not None),
    )


def require_request(ledger: Ledger, request_id: str) -> RequestStatus:
    """A request by its id.  Files are named for author and id, so that the other authors' need not be read."""
    files = ledger.path.glob(f"requests/*/*-{escape(request_id)}.json")
    authors = {int(author) for file in files if (author := file.name.partition("-")[0]).isdecimal()}
    asked = (status for author in sorted(authors) for status in ledger.requests(user_id=author))
    found = next((status for status in asked if status.request.id == request_id), None)
    if not found:
        raise ResolveError(f"the ledger has no request {inline(request_id, 80) or 'without a name'}")
    return found


def why_passed_over(status: RequestStatus, pull: PullRequest) -> str | None:
    """Why a request is no longer wanted, by nobody's fault; None if it is."""
    request = status.request
    if status.ending:
        return f"it has ended: {status.ending.state}"
    if request.is_rematch:
        return None
    if not pull.is_open:
        return "the pull request is closed"
    if pull.head_sha != request.head_sha:
        return "there was a push since; the new head has requests of its own"
    if pull.is_draft and request.is_ranked:
        return "the pull request is a draft again; mark it as ready to rank it"
    return None


def why_refused(facts: Facts) -> str | None:
    """Why a request's file must not be judged, told without its content; None if it may."""
    return _why_not_theirs(facts) or _why_not_the_file(facts) or _why_no_board(facts.task, facts.request)


def _why_not_theirs(facts: Facts) -> str | None:
    request, author = facts.request, facts.pull.author
    if author.id != request.user_id:
        return f"the pull request is of account {author.id}, the request of account {request.user_id}"
    # Who took part before and was renamed since keeps the folder of the first login.
    is_known = facts.owner is not None and facts.owner.user_id == request.user_id
    if author.login != request.login and not is_known:
        return f"its author was asked for as {request.login} and is called {inline(author.login)} now; push again"
    if facts.owner and facts.owner.user_id != request.user_id:
        return f"the folder of {request.login} belongs to account {facts.owner.user_id}, who was called so before"
    return None


def _why_not_the_file(facts: Facts) -> str | None:
    request, blob = facts.request, facts.blob
    match classify(facts.files, request.login):
        case Misplaced(reason=reason):
            return reason
        case Entry(task=request.task, login=request.login, name=facts.task.submission_name):
            pass
        case _:
            wanted = entry_path(request.task, request.login, facts.task.submission_name)
            return f"the pull request does not change {wanted}, and only that"
    if not blob:
        return "the file is not there"
    if blob.sha != request.blob_sha:
        return "the file is not the one that was asked for"
    if not blob.is_plain:
        return f"the file's mode is {inline(blob.mode)}; it must be a plain file, 100644: no link, not executable"
    if blob.size > facts.max_bytes:
        return f"the file is larger than {facts.max_bytes // 1024} KiB"
    return None


def _why_no_board(task: Task, request: Request) -> str | None:
    if request.gpu not in task.gpus:
        return f"{task.name} has no board {request.gpu}"
    # By the time of asking: who waited in the queue is not late.
    if request.is_ranked and not request.is_rematch and not task.is_open(request.in_time_at):
        return f"{task.name} was closed{_when(task.deadline)}; it can still be tested"
    return None


def _when(deadline: datetime | None) -> str:
    return f" at {deadline:%Y-%m-%d %H:%M} UTC" if deadline else ""


def why_unreadable(source: bytes, request: Request) -> str | None:
    """Why people could not review this file as Python or nvcc will read it; None if they can."""
    if request.digest not in (None, sha256(source)):
        return "the file's SHA-256 is not the one that was asked for"
    if b"\0" in source:
        return "the file is binary, not source code"
    try:
        text = source.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = source.count(b"\n", 0, error.start) + 1
        return f"line {line} is not UTF-8: byte 0x{source[error.start]:02x}"
    for number, line_text in enumerate(text.split("\n"), 1):
        # Format characters: what changes the direction of text, or has no width.
        if hidden := next((char for char in line_text if unicodedata.category(char) == "Cf"), None):
            return f"line {number} holds the invisible character U+{ord(hidden):04X}; take it out"
    return None


def minutes_for(board: Board, mode: Mode, *, dueled: bool) -> int:
    """After how many minutes a job can only hang: every phase that it may play, at its limit."""
    limits = board.limits
    seconds = limits.compile_timeout_s + limits.test_timeout_s
    if mode is not Mode.TEST:
        phase_s = limits.ranked_timeout_s if mode is Mode.RANKED else limits.benchmark_timeout_s
        seconds += limits.compile_timeout_s + phase_s
    if dueled:
        seconds += limits.compile_timeout_s + limits.ranked_timeout_s + LONGEST_EXTENDED_DUEL_S
    return min(_MAX_MINUTES, math.ceil(seconds / 60) + _SPARE_MINUTES)


def _write_bundle(
    out: Path,
    request: Request,
    task: Task,
    source: bytes,
    champion: Champion | None,
    toolchain: Toolchain,
    root: Path,
) -> str:
    """Write the artifact's files; returns the SHA-256 of bundle.zip."""
    harness = build_pyz(root)
    bundle = pack(request.to_json().encode(), task, source, champion, harness, toolchain)
    out.mkdir(parents=True, exist_ok=True)
    (out / "bundle.zip").write_bytes(bundle)
    (out / HARNESS).write_bytes(harness)
    shutil.copyfile(root / HOSTED_SETUP, out / HOSTED_SETUP.name)
    (out / "judge.lock").write_text(judge_lock(root), "utf-8")
    return sha256(bundle)
