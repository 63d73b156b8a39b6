"""`pullrank ci resolve`: a request in; out comes the bundle for its judging, or the reason why it is not judged.

    ledger ─► request ─► still open?       not ended                                              else: skipped
    git    ─► one file ─► allowed?         not banned, the path rule on pinned commits, the folder's owner,
                                           mode, size, hash, readable, an open board              else: refused
    main   ─► task, champion, harness ─► bundle.zip and harness.pyz

Intake has already checked all of this.  `recheck` checks it again, because anything may have changed since and because
a request can be dispatched by hand.  The pull request itself is not fetched: whatever happens to it ends the request
in the ledger, and `report` checks again before a judgement makes a row.  After a refusal, the job with write
permission ends the request and tells its author (`scripts/bot/report/refuse.py`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from glob import escape
from pathlib import Path

from harness.records.errors import PullRankError
from harness.records.fields import Mode
from harness.records.stats import LONGEST_EXTENDED_DUEL_S
from harness.task.bundle import sha256
from harness.task.task import Board, Task
from scripts.bot.admission.admission import Refused, why_banned
from scripts.bot.admission.path_rule import entry_path
from scripts.bot.admission.recheck import RecheckFacts, why_refused, why_unreadable
from scripts.bot.evaluate.champion import find_champion
from scripts.bot.evaluate.packing import pack
from scripts.bot.evaluate.pyz import write_judge
from scripts.common.git_command import GitError
from scripts.common.text import inline
from scripts.competition.repository import ROOT, require_task
from scripts.competition.settings import Settings
from scripts.github.fork import Fork
from scripts.ledger.ledger import Ledger, RequestStatus
from scripts.ledger.moderation import Moderated, find_owner
from scripts.ledger.request import Request

_SPARE_MINUTES = 10
"""For the rest of a job: start, download, import torch."""
_MAX_MINUTES = 350
"""GitHub's own machines end every job after six hours."""


_GONE = "not our ref"
"""What git's server says if it does not have a commit."""


class ResolveError(PullRankError):
    """The ledger has no such request."""


@dataclass(frozen=True, kw_only=True)
class Resolution:
    """The bundle of a request, or in `note` why there is none.

    `refusal` is one line of Markdown for the author; it is empty if the request was skipped and not refused.
    """

    request: Request
    wanted: bool
    note: str
    refusal: str = ""
    digest: str = ""
    runs_on: str = ""
    minutes: int = 0

    @property
    def outputs(self) -> dict[str, str]:
        """The step's outputs.  Only the refusal holds a participant's words, in code, and only `report` reads it."""
        if not self.wanted:
            return {"wanted": "false"} | ({"refusal": self.refusal} if self.refusal else {})
        return {"wanted": "true", "digest": self.digest, "runs-on": self.runs_on, "minutes": str(self.minutes)}


def resolve(
    request_id: str, out: Path, *, fork: Fork, ledger: Ledger, settings: Settings, root: Path = ROOT
) -> Resolution:
    """Write `bundle.zip` and what runs it into the folder `out`, if the request is still open.

    Raises:
        ResolveError: the request is unknown.
    """
    status = require_request(ledger, request_id)
    request = status.request
    if status.ending:
        return Resolution(request=request, wanted=False, note=f"{request.id}: already ended: {status.ending.state}")
    try:
        task, source = _admit(request, fork, ledger, settings, root)
    except Refused as refused:
        return Resolution(request=request, wanted=False, note=f"{request.id}: {refused}", refusal=str(refused))
    board = task.board(request.gpu)
    gpu, champion = settings.gpu(request.gpu), find_champion(board, ledger, request, source, fork, root)
    bundle = pack(request.to_json().encode(), task, source, champion, write_judge(out, root), gpu.toolchain)
    (out / "bundle.zip").write_bytes(bundle)
    return Resolution(
        request=request,
        wanted=True,
        note=f"{request.id}: {len(source)} bytes, {'duels the first if fast enough' if champion else 'no duel is due'}",
        digest=sha256(bundle),
        runs_on=gpu.runs_on_json,
        minutes=minutes_for(board, request.mode, dueled=champion is not None),
    )


def _admit(request: Request, fork: Fork, ledger: Ledger, settings: Settings, root: Path) -> tuple[Task, bytes]:
    """The task and the file to judge.  Raises Refused with a message for the author."""
    if not (root / "tasks" / request.task / "task.yml").is_file():
        raise Refused(f"The task `{request.task}` no longer exists.")
    task = require_task(request.task, root / "tasks")
    max_bytes = settings.limits.file_kib * 1024
    try:
        files = fork.changes(request.head_sha)
        path = entry_path(request.task, request.login, task.submission_name)
        blob, source = fork.read(request.head_sha, path, max_bytes)
    except GitError as error:
        if _GONE not in error.said:
            raise
        raise Refused(f"The commit `{request.head_sha[:7]}` is gone. Push again.") from None
    facts = RecheckFacts(
        request=request,
        files=files,
        blob=blob,
        owner=find_owner(ledger.accounts(), request.login),
        task=task,
        max_bytes=max_bytes,
        gpus=tuple(settings.gpus),
        ban=why_banned(request.user_id, request.login, settings, Moderated.after(ledger.moderations())),
    )
    if reason := why_refused(facts) or why_unreadable(source, request):
        raise Refused(reason)
    return task, source


def require_request(ledger: Ledger, request_id: str) -> RequestStatus:
    """A request by its id.  File names hold author and id, so other authors' files are not read."""
    files = ledger.path.glob(f"requests/*/*-{escape(request_id)}.json")
    authors = {int(author) for file in files if (author := file.name.partition("-")[0]).isdecimal()}
    asked = (status for author in sorted(authors) for status in ledger.requests(user_id=author))
    found = next((status for status in asked if status.request.id == request_id), None)
    if not found:
        raise ResolveError(f"the ledger has no request {inline(request_id, 80) or 'without an id'}")
    return found


def minutes_for(board: Board, mode: Mode, *, dueled: bool) -> int:
    """The job's timeout in minutes: the limits of all phases that it may play, and some to spare."""
    limits = board.limits
    seconds = limits.compile_timeout_s + limits.test_timeout_s
    if mode is not Mode.TEST:
        phase_s = limits.ranked_timeout_s if mode is Mode.RANKED else limits.benchmark_timeout_s
        seconds += limits.compile_timeout_s + phase_s
    if mode is Mode.PROFILE and board.gpu != "CPU":
        seconds += limits.benchmark_timeout_s  # again, under the vendor's profiler
    if dueled:
        seconds += limits.compile_timeout_s + limits.ranked_timeout_s + LONGEST_EXTENDED_DUEL_S
    return min(_MAX_MINUTES, math.ceil(seconds / 60) + _SPARE_MINUTES)
