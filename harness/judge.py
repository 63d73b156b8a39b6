"""The main path: a submission and a board in, a judgement out.

judge     the walls go up; inside them the warm parent imports torch
game      meanwhile we import torch ourselves; then build, tests, benchmarks, duel are played
judgement what came out, with the machine's facts
"""

from __future__ import annotations

import hashlib
import importlib.resources
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources.abc import Traversable

from harness import __version__, machine
from harness.errors import JudgeError, TaskError
from harness.judgement import (
    MAX_MESSAGE,
    CaseKind,
    CaseResult,
    Claim,
    Duel,
    HarnessInfo,
    Judgement,
    Mode,
    SandboxInfo,
    SubmissionInfo,
)
from harness.progress import OnProgress, Progress
from harness.sandbox import Kind, Sandbox, choose_kind
from harness.submission import Champion, Submission
from harness.task import METHOD, Board, Evaluator, Language
from harness.verdict import Verdict, overall

__all__ = ["Champion", "OnProgress", "Progress", "judge"]


def judge(
    board: Board,
    submission: Submission,
    mode: Mode,
    *,
    sandbox: str = "auto",
    champion: Champion | None = None,
    on_progress: OnProgress | None = None,
    run_url: str | None = None,
) -> Judgement:
    """Judge one submission on one board, for real.

    Args:
        sandbox: `bubblewrap`, `auto` (the same, which fails where it can't be had), or `none` for one's own code.
        champion: dueled if the submission could take its place; ranked mode only.

    Raises:
        TaskError: the task's own files are at fault.
        JudgeError: this machine is.  A participant's trouble is never raised: it is in the judgement.
    """
    _require_supported(board, mode)
    started_at = datetime.now(UTC)
    facts = machine.read_machine("cpu")
    kind = choose_kind(sandbox)
    if submission.fault:
        outcome = _refuse(submission.fault, kind)
    else:
        outcome = _play(board, submission, mode, kind, champion, on_progress or (lambda _: None))
    verdict = overall(case.verdict for case in outcome.cases)
    return Judgement(
        task=board.task.name,
        edition=board.edition,
        gpu=board.gpu,
        mode=mode,
        submission=_describe(submission),
        verdict=verdict,
        message=outcome.message or next((case.message for case in outcome.cases if case.verdict is verdict), ""),
        cases=outcome.cases,
        duel=outcome.duel,
        claim=Claim.BOUNDED if kind == "bubblewrap" else Claim.SELF_TIMED,
        machine=facts,
        sandbox=outcome.walls,
        harness=HarnessInfo(version=__version__, method=METHOD, digest=harness_digest()),
        started_at=started_at,
        finished_at=datetime.now(UTC),
        run_url=run_url,
        log=outcome.log,
    )


@dataclass(frozen=True, kw_only=True)
class _Outcome:
    cases: tuple[CaseResult, ...]
    walls: SandboxInfo
    duel: Duel | None = None
    message: str = ""
    log: str = ""


def _refuse(fault: str, kind: Kind) -> _Outcome:
    """What can't even be built is not let in."""
    build = CaseResult(
        kind=CaseKind.BUILD, params={}, verdict=Verdict.COMPILE_ERROR, message=fault[:MAX_MESSAGE], seconds=0.0
    )
    return _Outcome(cases=(build,), walls=SandboxInfo(kind=kind, stop="signals"))


def _play(
    board: Board, submission: Submission, mode: Mode, kind: Kind, champion: Champion | None, on_progress: OnProgress
) -> _Outcome:
    with Sandbox(kind, memory_gib=board.limits.memory_gib) as sandbox:
        # Only now: this imports torch, while the warm parent behind the walls does the same on its own core.
        from harness.game import Game

        game = Game(board, submission, mode, champion, on_progress)
        game.play(sandbox)
        walls = SandboxInfo(kind=kind, stop=sandbox.stop_kind, missing=tuple(sandbox.missing))
        return _Outcome(cases=tuple(game.results), walls=walls, duel=game.duel, message=game.message, log=game.log)


def harness_digest() -> str:
    """SHA-256 over the judge's own source: which harness it was."""
    digest = hashlib.sha256()
    for name, content in sorted(_sources(importlib.resources.files("harness"), "")):
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


def _sources(folder: Traversable, below: str) -> Iterator[tuple[str, bytes]]:
    for item in folder.iterdir():
        if item.is_dir():
            yield from _sources(item, f"{below}{item.name}/")
        elif item.name.endswith(".py"):
            yield below + item.name, item.read_bytes()


def _describe(submission: Submission) -> SubmissionInfo:
    return SubmissionInfo(
        login=submission.login,
        user_id=submission.user_id,
        pull_request=submission.pull_request,
        head_sha=submission.head_sha,
        digest=submission.digest,
        lines=submission.lines,
        language=submission.language,
    )


def _require_supported(board: Board, mode: Mode) -> None:
    task = board.task
    if board.gpu != "CPU":
        raise JudgeError(f"{task.name}: this judge has no device for the board {board.gpu}; it judges CPU boards")
    if task.evaluator is not Evaluator.REFEREE or task.lang is not Language.PY:
        raise TaskError(f"{task.name}: this judge plays tasks with 'evaluator: referee' and 'lang: py' only")
    if mode is Mode.PROFILE:
        raise JudgeError("this judge has no profiler yet; use the modes test, benchmark or ranked")
