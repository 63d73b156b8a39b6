"""Judge a submission on a board (`judge`), duel two files (`duel`), or judge several in one sandbox (`JudgeSession`).

judge     starts the sandbox, in which the warm parent imports torch
game      imports torch in the meantime; then plays build, tests, benchmarks, duel
judgement collects the results and the machine's facts
"""

from __future__ import annotations

import contextlib
import itertools
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from harness.frame import Frame, Results
from harness.gpu.device import Device, device_of
from harness.gpu.gpu_nodes import require_gpus
from harness.gpu.vendor_profilers import PROFILERS, Profiler
from harness.processes.other_work import OtherWorkRule
from harness.records.counters import LaunchFilter
from harness.records.errors import JudgeError, PullRankError, SubmissionError, TaskError
from harness.records.fields import CaseKind, Mode
from harness.records.judgement import CaseResult, Judgement
from harness.records.progress import OnProgress
from harness.records.replay import Replay
from harness.records.stats import DUEL_LOOKS, MIN_PAIRS
from harness.records.times import Duel
from harness.records.verdict import Foul, Verdict
from harness.sandbox.sandbox import Sandbox, SandboxKind
from harness.sandbox.works_here import choose_kind
from harness.shared_sandbox import open_sandbox
from harness.task import torch_compiler
from harness.task.compile import recipe_of
from harness.task.submission import Champion, Submission
from harness.task.task import Board, Case, Language

if TYPE_CHECKING:
    from harness.rules.context import Context
    from harness.rules.game import Game

_UNWATCHED = "a GPU driver that reports clocks and load during runs: they are not watched"

__all__ = ["DuelResult", "JudgeSession", "duel", "judge", "open_context", "require_launch_choice"]


def judge(
    board: Board,
    submission: Submission,
    mode: Mode,
    *,
    sandbox: str = "auto",
    champion: Champion | None = None,
    replay: Replay | None = None,
    on_progress: OnProgress | None = None,
    run_url: str | None = None,
    device: Device | None = None,
    reports: Path | None = None,
    profiled: Sequence[Case] = (),
    launches: LaunchFilter | None = None,
    other_work: OtherWorkRule = OtherWorkRule.ALLOW,
) -> Judgement:
    """Judge one submission on one board.

    Faults of the submission are not raised; they are in the judgement.

    Args:
        sandbox: `bubblewrap`, `auto` (bubblewrap, or an error if it is not available), or `none` for your own code.
        champion: dueled if the submission could take its place; in mode `ranked` only.
        replay: play on the seeds of an earlier judgement; not in mode `ranked`.
        device: use this device instead of the board's, for a rehearsal.
        reports: folder for the reports of a GPU vendor's profiler, in mode `profile`.
        profiled: the benchmarks to profile, in mode `profile`.  Default: all.
        launches: which kernel launches of a call ncu profiles, in mode `profile`.  Default: the first ones.  Other
            profilers ignore it (`require_launch_choice`).
        other_work: the rule for other work on this machine; `REFUSE` raises JudgeError if nothing else helps.

    Raises:
        TaskError: the task's own files are at fault.
        SubmissionError: the file is in another language than the task's.
        JudgeError: this machine is at fault.
    """
    _require_supported(board, mode, submission)
    if replay and mode is Mode.RANKED:
        raise ValueError("a replay cannot be ranked, because its seeds are known")
    frame = Frame(board, choose_kind(sandbox), run_url, device)
    if mode is Mode.RANKED:
        frame.require_unhindered()
    if results := _play_without_referee(frame, submission, mode, on_progress):
        if mode is Mode.RANKED:
            frame.require_was_unhindered()
        return frame.judgement(submission, mode, results)
    # Preload for both sides what either uses: all players are forks of one process.  So a file may find out that its
    # opponent uses torch's compiler, and that there may be a duel (SECURITY.md).
    files = (submission, champion.submission) if champion else (submission,)
    game: Game | None = None
    try:
        with open_context(
            board,
            mode,
            frame.kind,
            on_progress,
            frame.device,
            replay,
            files=files,
            launches=launches,
            other_work=other_work,
        ) as context:
            from harness.rules.game import Game

            game = Game(
                context,
                submission,
                champion,
                reports=reports,
                profiled=profiled,
                require_unhindered=frame.require_was_unhindered,
            )
            game.play()
            frame.note_sandbox(context.sandbox)
        if mode is Mode.RANKED:
            frame.require_was_unhindered()
    except JudgeError as error:
        if not game or not game.has_dueled or not game.is_accepted:
            raise
        game.void_duel(error)
    return frame.judgement(submission, mode, _results_of(game))


@dataclass(frozen=True, kw_only=True)
class DuelResult:
    """Two files on one board: the judgements of their builds and tests, and their duel if both were accepted.

    In the duel, A is the challenger and `ratio` is A / B.
    """

    a: Judgement
    b: Judgement
    duel: Duel | None


def duel(
    board: Board,
    a: Submission,
    b: Submission,
    *,
    looks: Sequence[int] = DUEL_LOOKS,
    sandbox: str = "auto",
    on_progress: OnProgress | None = None,
) -> DuelResult:
    """Play two files against each other, in the same way as challenger and champion.

    Args:
        looks: numbers of blocks of each benchmark after which to check for a decision; the last ends the duel.

    Raises:
        TaskError, JudgeError: as `judge` does; also if the duel exceeds its time limit.
    """
    _require_supported(board, Mode.TEST, a, b)
    if not board.task.is_refereed:
        raise TaskError(f"{board.task.name} is timed by its own program, one file at a time: it does not support duels")
    frame = Frame(board, choose_kind(sandbox))
    with open_context(board, Mode.TEST, frame.kind, on_progress, files=(a, b)) as context:
        from harness.rules.game import Match

        match = Match(context, a, b)
        match.play(looks)
        frame.note_sandbox(context.sandbox)
    results = {
        side: Results(cases=tuple(cases), log=context.logs.get(side, "")) for side, cases in match.results.items()
    }
    judgements = {side: frame.judgement(file, Mode.TEST, results[side]) for side, file in match.files.items()}
    return DuelResult(a=judgements["A"], b=judgements["B"], duel=match.duel)


class JudgeSession:
    """Judges several submissions on one board, one after the other, in one sandbox.

    Each has its own players and cache, like the sides of a duel, and the sandbox's health is checked after each.
    """

    def __init__(
        self,
        board: Board,
        *,
        sandbox: str = "auto",
        on_progress: OnProgress | None = None,
        device: Device | None = None,
        other_work: OtherWorkRule = OtherWorkRule.ALLOW,
    ) -> None:
        """`device` replaces the board's, for a rehearsal; `other_work` is as for the function `judge`."""
        self.board = board
        self._other_work = other_work
        self._device = device
        self._sandbox = sandbox
        self._on_progress = on_progress
        self._numbers = itertools.count(1)
        self._context: Context | None = None
        self._exits = contextlib.ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._exits.__exit__(kind, error, trace)

    def begin(self) -> None:
        """Start the sandbox, so that its warm parent imports torch while the caller does something else.

        Errors are ignored here; `judge` tries again and raises them.
        """
        if self.board.task.is_refereed:
            with contextlib.suppress(PullRankError):
                self._open_context()

    def judge(
        self, submission: Submission, mode: Mode, *, pairs: int = MIN_PAIRS, until_failure: bool = False
    ) -> Judgement:
        """Judge one submission in mode `test` or `benchmark`, on secret seeds; `pairs` pairs of runs per benchmark.

        With `until_failure`, the referee plays no test after the first that is not accepted.

        Raises:
            TaskError, JudgeError: as the function `judge` does; the next call starts a new sandbox.
        """
        _require_supported(self.board, mode, submission)
        frame = Frame(self.board, choose_kind(self._sandbox), device=self._device)
        if results := _play_without_referee(frame, submission, mode, self._on_progress):
            return frame.judgement(submission, mode, results)
        try:
            context = self._open_context()
            results = self._play(context, submission, mode, pairs, until_failure=until_failure)
        except BaseException:
            self._context = None
            self._exits.__exit__(*sys.exc_info())
            raise
        frame.note_sandbox(context.sandbox)
        return frame.judgement(submission, mode, results)

    def _open_context(self) -> Context:
        """The context, in a sandbox that is started if there is none."""
        if not self._context:
            context = open_context(
                self.board,
                Mode.BENCHMARK,
                choose_kind(self._sandbox),
                self._on_progress,
                self._device,
                other_work=self._other_work,
            )
            self._context = self._exits.enter_context(context)
        return self._context

    def _play(
        self, context: Context, submission: Submission, mode: Mode, pairs: int, *, until_failure: bool
    ) -> Results:
        from harness.rules.game import Game

        name = f"submission {next(self._numbers)}"
        game = Game(context, submission, mode=mode, name=name, pairs=pairs, until_failure=until_failure)
        game.play()
        context.sandbox.require_health()
        return _results_of(game)


@contextlib.contextmanager
def open_context(
    board: Board,
    mode: Mode,
    kind: SandboxKind,
    on_progress: OnProgress | None = None,
    device: Device | None = None,
    replay: Replay | None = None,
    *,
    files: Sequence[Submission] = (),
    launches: LaunchFilter | None = None,
    other_work: OtherWorkRule = OtherWorkRule.ALLOW,
) -> Iterator[Context]:
    """Start the sandbox of a judging, and set up the context that its sides share.

    Args:
        files: the submissions to play, as far as known.  What they import is preloaded, so that players start sooner.
        launches: which kernel launches of a call ncu profiles, in mode `profile`.
    """
    device = device or device_of(board.gpu)
    recipe = recipe_of(board) if board.task.is_compiled else None
    profiler = _profiler_of(device, launches) if mode is Mode.PROFILE else None
    shown = (*(recipe.shown if recipe else ()), *(profiler.shown if profiler else ()))
    sources = (*(file.source for file in files), board.task.anchor_source)
    # Not on a GPU, where it has not been tried: if the import used CUDA, no player could, as players are forks.
    compiles = not device.is_gpu and any(map(torch_compiler.is_used_by, sources))
    with open_sandbox(
        kind=kind,
        memory_gib=board.limits.memory_gib,
        gpu_memory_gib=board.limits.gpu_memory_gib,
        shown=shown,
        has_compiler=compiles,
        device=device,
    ) as sandbox:
        # Not earlier: this imports torch, while the warm parent in the sandbox does the same on another core.
        from harness.rules.context import Context

        with device.referee_side.prepared():
            context = Context(
                board, mode, sandbox, on_progress or (lambda _: None), recipe, device, replay, profiler,
                other_work=other_work,
            )  # fmt: skip
            if device.is_gpu and not context.gpu.sees and _UNWATCHED not in sandbox.missing:
                sandbox.missing.append(_UNWATCHED)
            yield context


def _profiler_of(device: Device, launches: LaunchFilter | None) -> Profiler | None:
    """The profiler of the GPU's vendor, for some launches of a call; None for a CPU."""
    vendor = require_gpus()[0].vendor if device.is_gpu else device.rehearses
    if not vendor:
        return None
    return PROFILERS[vendor].filtered(launches) if launches else PROFILERS[vendor]


def require_launch_choice(board: Board) -> None:
    """Raise SubmissionError if the profiler of this machine's GPU cannot choose the launches of a call."""
    if profiler := _profiler_of(device_of(board.gpu), None):
        profiler.require_choice()


def _play_without_referee(
    frame: Frame, submission: Submission, mode: Mode, on_progress: OnProgress | None
) -> Results | None:
    """The results of an invalid file, or of a task with its own program; None if the referee must judge."""
    is_refereed = frame.board.task.is_refereed
    if fault := submission.find_fault(needs_kernel=is_refereed):
        return _refuse(fault)
    return None if is_refereed else _run_script(frame, submission, mode, on_progress)


def _run_script(frame: Frame, submission: Submission, mode: Mode, on_progress: OnProgress | None) -> Results:
    """Let the task's own program judge; does not import torch."""
    from harness.rules.script import Script

    board = frame.board
    recipe = recipe_of(board, shared=False) if board.task.lang is Language.CU else None
    with Sandbox(
        frame.kind,
        memory_gib=board.limits.memory_gib,
        gpu_memory_gib=board.limits.gpu_memory_gib,
        warm=False,
        shown=recipe.shown if recipe else (),
        device=frame.device,
        world_size=board.world_size,
    ) as sandbox:
        script = Script(board, mode, sandbox, submission, recipe, on_progress)
        script.play()
        frame.note_sandbox(sandbox)
    if frame.device.is_gpu and any(case.verdict is not Verdict.ACCEPTED for case in script.results):
        with frame.device.referee_side.prepared(len(frame.gpus)):  # raises if a GPU is broken: no submission is blamed
            pass
    return Results(cases=tuple(script.results), log=script.log)


def _results_of(game: Game) -> Results:
    quiet = game.context.quiet
    return Results(
        cases=tuple(game.results),
        duel=game.duel,
        forfeit=game.forfeit,
        message=game.message,
        log=game.log,
        other_work=tuple(game.runs.other_work),
        repeats=quiet.repeats if quiet else 0,
        waited_s=quiet.waited_s if quiet else 0.0,
    )


def _refuse(fault: str) -> Results:
    """The results of a file that cannot be judged: its build fails."""
    return Results(cases=(CaseResult.of(CaseKind.BUILD, {}, Foul(Verdict.COMPILE_ERROR, fault)),))


def _require_supported(board: Board, mode: Mode, *files: Submission) -> None:
    task = board.task
    if wrong := next((file.name for file in files if file.name != task.name_of(file.digest)), None):
        raise SubmissionError(f"{task.name} expects a {task.submission_name}, not a {wrong}")
    if mode is Mode.RANKED and not task.ranks:
        raise TaskError(f"{task.name} never ranks: its code was rewritten for another device (device_alias)")
    if mode is Mode.PROFILE and not task.is_refereed:
        raise TaskError(f"{task.name} is judged by its own program, which cannot be profiled; use test or benchmark")
