"""Fetch and read what a machine uploads: one small zip, treated as hostile.

    judgement.json     a judgement; or
    error.json         why there is none: {"format": "pullrank-error", "version": 1, "message": …}

It is never extracted: exactly one member, with a known name and a capped size, is read into memory.
`why_no_match` then compares the judgement with the request.
"""

from __future__ import annotations

import io
import json
import math
import zipfile
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from harness.records.errors import PullRankError
from harness.records.fields import Mode
from harness.records.judgement import MAX_BYTES, CaseResult, Claim, Judgement, JudgementError
from harness.records.times import Duel, DuelCase, duel_ratio
from harness.records.verdict import Verdict
from harness.task.bundle import COMPRESSIONS, NOT_A_ZIP
from harness.task.formula import NotAFormula
from harness.task.task import Board, Case
from scripts.common.text import plain, shorten
from scripts.competition.settings import Gpu
from scripts.github.pulls import Job
from scripts.ledger.request import Request
from scripts.standings.eligibility import shape
from scripts.standings.roofline import floor_us, work_of

if TYPE_CHECKING:
    from scripts.github.gh import GitHub

MAX_ZIP = MAX_BYTES + (1 << 20)
MAX_ERROR = 64 * 1024
CLOCK_SKEW = timedelta(minutes=5)
"""How far a judge's clock may differ from GitHub's."""
CACHED_BYTES = 256 << 20
"""A case that moves less may be served from a cache, so the floor does not hold for it."""


class ArtifactError(PullRankError):
    """The artifact does not hold what a judge uploads."""


def newest_artifact(github: GitHub, run_id: int, name: str, max_bytes: int, result: str) -> bytes:
    """The zip of a run's newest artifact of a name; `result` is how the job ended that uploads it.

    Raises:
        ArtifactError: there is none, it has expired, or is too large.
        GitHubError: GitHub fails; the artifact stays there for the next attempt.
    """
    found = [one for one in github.artifacts(run_id, name) if one.name == name]
    if not found:
        raise ArtifactError(f"the machine's job ended ({result}) without a result")
    newest = max(found, key=lambda one: one.id)
    if newest.is_expired or newest.size > max_bytes:
        raise ArtifactError("the machine's result has expired or is too large")
    return github.download_artifact(newest.id, max_bytes, newest.digest or "")


def read_artifact(content: bytes) -> Judgement:
    """The judgement in an artifact's zip.

    Raises:
        ArtifactError: it holds none; the message is the judge's own explanation, or says what is wrong with the zip.
    """
    name, text = only_member(content, {"judgement.json": MAX_BYTES, "error.json": MAX_ERROR})
    if name == "error.json":
        raise ArtifactError(read_error(text))
    try:
        return Judgement.from_json(text)
    except JudgementError as error:
        raise ArtifactError(f"the judgement cannot be read: {shorten(plain(str(error)), 300)}") from None


def only_member(content: bytes, sizes: Mapping[str, int]) -> tuple[str, bytes]:
    """The name and content of a zip's only member.

    Args:
        sizes: the allowed names, each with the member's largest size in bytes.

    Raises:
        ArtifactError: it is not a zip, or holds something else.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            infos = archive.infolist()
            if len(infos) != 1 or infos[0].filename not in sizes:
                raise ArtifactError(f"the artifact must hold {' or '.join(sizes)}, and nothing else")
            if infos[0].compress_type not in COMPRESSIONS:
                raise ArtifactError("the artifact has a compression method that GitHub does not use")
            limit = sizes[infos[0].filename]
            with archive.open(infos[0]) as file:
                text = file.read(limit + 1)
    except NOT_A_ZIP as error:
        raise ArtifactError(f"the artifact is not a valid zip: {shorten(plain(str(error)), 200)}") from None
    if len(text) > limit:
        raise ArtifactError(f"{infos[0].filename} is larger than {limit} bytes")
    return infos[0].filename, text


def read_error(text: bytes) -> str:
    """The message of an error.json.  Raises ArtifactError if it is malformed."""
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        raise ArtifactError("error.json is not JSON") from None
    match fields:
        case {"format": "pullrank-error", "version": 1, "message": str(message), **rest} if not rest:
            return shorten(" ".join(plain(message).split()), 400)
    raise ArtifactError("error.json does not have the expected format")


def why_no_match(
    judgement: Judgement,
    request: Request,
    board: Board,
    gpu: Gpu,
    harness_digest: str,
    job: Job | None,
    run_url: str,
) -> str:
    """Why a judgement does not answer a request; empty if it does.

    Args:
        job: the job that made it; None if GitHub knows of none.
        run_url: the page of that job's run.
    """
    ours = judgement.submission
    expected = {
        "task": (judgement.task, request.task),
        "GPU": (judgement.gpu, request.gpu),
        "mode": (judgement.mode, request.mode),
        "login": (ours.login, request.login),
        "numeric id": (ours.user_id, request.user_id),
        "pull request": (ours.pull_request, request.pull_request),
        "commit": (ours.head_sha, request.head_sha),
        "file": (ours.digest, request.digest or ours.digest),
        "harness": (judgement.harness.digest, harness_digest),
        "run": (judgement.run_url or run_url, run_url),
    }
    for what, (found, wanted) in expected.items():
        if found != wanted:
            return f"its {what} is not the request's"
    if judgement.edition == board.edition and not _are_cases_of(judgement, board, request.case):
        return "its cases are not the board's"
    if judgement.edition == board.edition and judgement.duel and not _is_duel_of(judgement.duel, board):
        return "its duel does not match the board's cases or its own times"
    if judgement.claim.weakness < highest_claim(board, judgement.sandbox.kind, judgement.machine.device).weakness:
        return f"it claims more than its board allows: {judgement.claim}"
    if gpu.device and not judgement.machine.is_a(gpu.device):
        return f"it was judged on a device other than {' or '.join(gpu.device)}"
    if judgement.verdict is Verdict.JUDGING_ERROR:
        return "it is a judging error"
    if not _is_within(judgement, job):
        return "its start and end are outside the job that made it"
    return ""


def highest_claim(board: Board, sandbox: str, device: str) -> Claim:
    """The strongest claim that the harness makes for a board's times: a forged judgement may claim more."""
    if sandbox == "none" or not board.task.is_refereed:
        return Claim.SELF_TIMED
    is_amd = board.gpu != "CPU" and device.startswith("AMD")
    return Claim.INSIDE_TIMED if is_amd else Claim.BOUNDED


def _are_cases_of(judgement: Judgement, board: Board, profiled: int | None = None) -> bool:
    """Whether it holds each of the board's cases once.  A judgement that is not accepted may have ended early.

    Args:
        profiled: number of the only benchmark that mode `profile` was to run.
    """
    is_timed = judgement.mode in (Mode.BENCHMARK, Mode.RANKED)
    kinds = [
        (judgement.tests, board.tests),
        (judgement.benchmarks, board.benchmarks if is_timed else ()),
        (judgement.profiles, board.benchmarks_to_profile(profiled) if judgement.mode is Mode.PROFILE else ()),
    ]
    for found, wanted in kinds:
        played, known = Counter(_shapes(found)), Counter(_shapes(wanted))
        if not played <= known or (judgement.verdict is Verdict.ACCEPTED and played != known):
            return False
    return True


def _is_duel_of(duel: Duel, board: Board) -> bool:
    """Whether it was played on the cases that rank, and its ratio follows from their times."""
    if _shapes(duel.cases) != _shapes(board.counting):
        return False
    ratio = duel_ratio(duel.cases, board.ranking_by, duel.earlier)
    return all(math.isclose(getattr(duel.ratio, name), getattr(ratio, name)) for name in ("value", "low", "high"))


def _shapes(cases: Iterable[CaseResult | DuelCase | Case]) -> list[str]:
    return [json.dumps(shape(case.params), sort_keys=True) for case in cases]


def _is_within(judgement: Judgement, job: Job | None) -> bool:
    if not job or not job.started_at:
        return False
    begins, ends = job.started_at - CLOCK_SKEW, (job.completed_at or datetime.now(UTC)) + CLOCK_SKEW
    return begins <= judgement.started_at <= judgement.finished_at <= ends


def why_below_the_floor(judgement: Judgement, board: Board, gpu: Gpu) -> str:
    """Why a judgement needs a review: a time below what the hardware's peaks allow.  Empty if there is none."""
    work = board.task.work
    if not work:
        return ""
    for case in judgement.benchmarks:
        if case.time_us is None:
            continue
        try:
            moved, flops = work_of(work, case.params)
        except NotAFormula:
            return ""
        # Less may stay in a cache, which is faster than the memory.  No cache makes operations faster.
        floor = floor_us(moved if moved >= CACHED_BYTES else 0.0, flops, work.dtype, gpu)
        # Without the claim "bounded", the bound is what a cheat may hide, and no excuse.
        bound_us = case.timing.bound_us if case.timing and judgement.claim is Claim.BOUNDED else 0.0
        if case.time_us + bound_us < floor:
            return f"{case.time_us:.1f} µs is below the hardware's floor of {floor:.1f} µs"
    return ""
