"""`pullrank ci resolve`: a request in; out comes the bundle for its judging, or the reason why it is not judged.

    ledger ─► request ─► still open?       not ended                                              else: skipped
    git    ─► one file ─► allowed?         not banned, the path rule on pinned commits, the folder's owner,
                                           mode, size, hash, readable, an open board, no copy     else: refused
    main   ─► task, champion, harness ─► bundle.zip and harness.pyz

Intake has already checked all of this.  `recheck` checks it again, because anything may have changed since and because
a request can be dispatched by hand.  The pull request itself is not fetched: whatever happens to it ends the request
in the ledger, and `report` checks again before a judgement makes a row.  After a refusal, the job with write
permission ends the request and tells its author (`scripts/bot/report/report.py`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.records.errors import PullRankError
from harness.records.fields import Mode
from harness.records.judgement import Judgement
from harness.records.stats import DRAWN_OUT, LONGEST_EXTENDED_DUEL_S, MIN_PAIRS, RETRY_S
from harness.task.bundle import sha256
from harness.task.submission import MAX_BYTES, Champion, Submission
from harness.task.task import Board, Task
from scripts.bot.admission.admission import Competition, Refused, require_first
from scripts.bot.admission.path_rule import entry_path
from scripts.bot.admission.recheck import require_as_requested
from scripts.bot.evaluate.packing import pack
from scripts.bot.evaluate.pyz import write_judge
from scripts.common.git_command import GitError
from scripts.common.text import inline
from scripts.competition.repository import ROOT, require_task
from scripts.competition.runs_on import to_json
from scripts.competition.settings import Settings
from scripts.github.fork import Fork
from scripts.ledger.ledger import Ledger, RequestStatus
from scripts.ledger.moderation import REMOVED, Moderated, file_key
from scripts.ledger.request import Request
from scripts.standings.rows import Row
from scripts.standings.standings import standings

_SPARE_MINUTES = 10
"""For the rest of a job: start, download, import torch."""
_MAX_MINUTES = 350
"""GitHub's own machines end every job after six hours."""


_GONE = "not our ref"
"""What git's server says if it does not have a commit."""


@dataclass(frozen=True, kw_only=True)
class Resolution:
    """The bundle of a request, with its `digest`; or in `note` why there is none.

    `refusal` is one line of Markdown for the author; it is empty if the request was skipped and not refused.
    """

    note: str
    refusal: str = ""
    digest: str = ""
    runs_on: str = ""
    minutes: int = 0

    @property
    def outputs(self) -> dict[str, str]:
        """The step's outputs.  Only the refusal holds a participant's words, in code, and only `report` reads it."""
        if not self.digest:
            return {"wanted": "false"} | ({"refusal": self.refusal} if self.refusal else {})
        return {"wanted": "true", "digest": self.digest, "runs-on": self.runs_on, "minutes": str(self.minutes)}


def resolve(
    request_id: str, out: Path, *, fork: Fork, ledger: Ledger, settings: Settings, root: Path = ROOT
) -> Resolution:
    """Write `bundle.zip` and what runs it into the folder `out`, if the request is still open.

    Raises:
        PullRankError: the request is unknown.
    """
    status = require_request(ledger, request_id)
    request = status.request
    if status.ending:
        return Resolution(note=f"{request.id}: already ended: {status.ending.state}")
    # Only ranked judgings depend on others.  They are read once: those of a large board take seconds.
    contents = ledger.judgements(request.task, request.gpu, samples=False) if request.is_ranked else None
    judgements = contents.judgements if contents else ()
    try:
        task, source = _admit(request, judgements, fork, ledger, settings, root)
    except Refused as refused:
        return Resolution(note=f"{request.id}: {refused}", refusal=str(refused))
    board = task.board(request.gpu)
    gpu, champion = settings.gpu(request.gpu), find_champion(board, judgements, ledger, request, source, fork, root)
    bundle = pack(request.to_json().encode(), task, source, champion, write_judge(out, root), gpu.toolchain)
    (out / "bundle.zip").write_bytes(bundle)
    return Resolution(
        note=f"{request.id}: {len(source)} bytes, {'duels the first if fast enough' if champion else 'no duel is due'}",
        digest=sha256(bundle),
        runs_on=to_json(gpu.runs_on),
        minutes=minutes_for(board, request.mode, dueled=champion is not None),
    )


def _admit(
    request: Request, judgements: Sequence[Judgement], fork: Fork, ledger: Ledger, settings: Settings, root: Path
) -> tuple[Task, bytes]:
    """The task and the file to judge.  Raises Refused with a message for the author."""
    if not (root / "tasks" / request.task / "task.yml").is_file():
        raise Refused(f"The task `{request.task}` no longer exists.")
    task = require_task(request.task, root / "tasks")
    max_bytes = settings.limits.file_kib * 1024
    try:
        files = fork.changes(request.head_sha)
        path = entry_path(request.task, request.login, task.name_of(request.digest))
        blob, source = fork.read(request.head_sha, path, max_bytes)
    except GitError as error:
        if _GONE not in error.said:
            raise
        raise Refused(f"The commit `{request.head_sha[:7]}` is gone. Push again.") from None
    moderated = Moderated.after(ledger.moderations())
    competition = Competition(settings=settings, accounts=ledger.accounts().facts, moderated=moderated)
    require_as_requested(request, task, competition, files=files, blob=blob, source=source)
    if request.fingerprint and not request.is_rematch:
        # Intake may have heard of an earlier offer later.
        require_first(request.user_id, ledger.origins(task.name, request.fingerprint), competition)
    if request.is_rematch and not _still_counts(request, moderated.counted(judgements)):
        raise Refused("Its earlier results no longer count.")
    file = file_key(request.task, request.gpu, request.login, sha256(source))
    if request.is_ranked and (decision := moderated.removed_files(judgements).get(file)):
        raise Refused(
            f"On {decision.at:%Y-%m-%d}, a maintainer decided that this file does not count on this board "
            f"({REMOVED[decision.action]}): {inline(decision.reason)}"
        )
    return task, source


def _still_counts(request: Request, counted: Sequence[Judgement]) -> bool:
    """Whether results of the commit still count; its author may have withdrawn them since the bot asked."""
    heads = ((one.submission.pull_request, one.submission.head_sha) for one in counted)
    return (request.pull_request, request.head_sha) in heads


def find_champion(
    board: Board,
    judgements: Sequence[Judgement],
    ledger: Ledger,
    request: Request,
    source: bytes,
    fork: Fork,
    root: Path,
) -> Champion | None:
    """The champion that a file must duel if it could be first; None if no duel can be due or that file is gone."""
    digest = sha256(source)
    if not (request.is_ranked and board.task.is_refereed) or board.task.baseline_name(digest):
        return None
    now = Moderated.after(ledger.moderations())
    table = standings(board, judgements, now.removed(judgements))
    first = table.champion
    if not first or first.login.casefold() == request.login.casefold() or first.digest == digest:
        return None
    theirs = _read_file(first, board.task, fork, root)
    if theirs is None:
        return None
    name, user_id = board.task.submission_name, first.newest.submission.user_id
    file = Submission(login=first.login, source=theirs, name=name, user_id=user_id)
    earlier = table.undecided_duels(request.login)
    return Champion(submission=file, score=first.score_us, nominal_us=table.nominal_us, earlier=earlier)


def _read_file(row: Row, task: Task, fork: Fork, root: Path) -> bytes | None:
    """The champion's file: from `main` if it was merged, else from the commit that was judged."""
    path = entry_path(task.name, row.login, task.submission_name)
    merged = root / path
    if merged.is_file() and sha256(content := merged.read_bytes()) == row.digest:
        return content
    try:
        head_sha = row.newest.submission.head_sha
        _, content = fork.read(head_sha, path, MAX_BYTES) if head_sha else (None, b"")
    except GitError:
        return None  # The commit may be gone with its fork; the duel stays due.
    return content if sha256(content) == row.digest else None


def require_request(ledger: Ledger, request_id: str) -> RequestStatus:
    """A request by its id.

    Raises:
        PullRankError: the ledger has no such request.
    """
    found = next((status for status in ledger.requests() if status.request.id == request_id), None)
    if not found:
        raise PullRankError(f"the ledger has no request {inline(request_id, 80) or 'without an id'}")
    return found


def minutes_for(board: Board, mode: Mode, *, dueled: bool) -> int:
    """The job's timeout in minutes: the limits of all phases that it may play, and some to spare."""
    limits = board.limits
    seconds = limits.compile_timeout_s + limits.test_timeout_s
    if mode is not Mode.TEST:
        phase_s = limits.ranked_timeout_s if mode is Mode.RANKED else limits.benchmark_timeout_s
        # Submission and anchor are imported for each run; a benchmark may go on after its pairs.
        seconds += limits.compile_timeout_s + phase_s + 2 * (MIN_PAIRS + 1) * len(board.benchmarks) * limits.import_s()
    if mode is Mode.PROFILE and board.gpu != "CPU":
        seconds += limits.benchmark_timeout_s  # again, under the vendor's profiler
    if dueled:
        # A champion that fails early may build and play once more.
        seconds += 2 * limits.compile_timeout_s + RETRY_S
        seconds += DRAWN_OUT * max(limits.ranked_timeout_s, LONGEST_EXTENDED_DUEL_S) + 2 * board.duel_imports_s
        seconds += LONGEST_EXTENDED_DUEL_S  # what the champion's imports may take beyond the challenger's
    return min(_MAX_MINUTES, math.ceil(seconds / 60) + _SPARE_MINUTES)
