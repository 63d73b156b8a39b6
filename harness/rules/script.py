"""Tasks with their own evaluator: its program judges inside the sandbox, and PullRank parses its output.

    build        python3 submission.py, which fills caches; or the compiler, which makes the program     CE
    tests        <program> test <cases>          ┐ each in a fresh process, with its own files and a pipe for results
    benchmarks   <program> benchmark <cases>     ┘ ranked: <program> leaderboard <cases>, six processes, if time allows

The sandbox protects the machine and other judgings from the submission, as for any player.  It does not protect the
program, because both share a process, or at least a user.  The submission can read the seed, the reference and the
clock, and write any line that the program could.  So the result is only `self-timed`: verdict and times are as
trustworthy as the author.  The protocol is KernelBot's; `kernelbot_output` parses it.
"""

from __future__ import annotations

import re
import secrets
import site
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from harness.gpu.gpu_errors import is_out_of_memory
from harness.inside.zygote import RESULTS
from harness.records.errors import TaskError
from harness.records.fields import MAX_MESSAGE, CaseKind, Mode
from harness.records.judgement import CaseResult
from harness.records.progress import OnProgress, Progress
from harness.records.stats import MIN_PAIRS
from harness.records.times import ToldRun, ToldTiming
from harness.records.verdict import Foul, Verdict
from harness.rules.kernelbot_output import CaseReport, Lines, Times, case_line, mode_argument, refuse_any
from harness.sandbox.player_handle import how_it_ended
from harness.sandbox.program import Ended, run
from harness.sandbox.sandbox import PlayerFiles, Program, Sandbox
from harness.task.compile import Recipe, explain, ran_out_of_memory
from harness.task.submission import Submission
from harness.task.task import Board, Case, ScriptConfig

_CASES = ".cases"
"""The file of cases; no file of a task can have this name."""
_ERRORS_OF_THEIRS = {
    110: "a call of the GPU driver failed",
    111: "it could not open the pipe for its results",
    113: "it could not read its cases",
}
"""Meaning of the exit codes of KernelBot's programs.  A submission can forge them, so none is a judging error."""
_TOO_LATE = 114
_FRAME = re.compile(r'^ *File "(?:[^"\n]*/)?submission\.py", line ([0-9]+)', re.MULTILINE)


class Script:
    """One judging of a task by its own program: results so far."""

    def __init__(
        self,
        board: Board,
        mode: Mode,
        sandbox: Sandbox,
        submission: Submission,
        recipe: Recipe | None,
        on_progress: OnProgress | None,
    ) -> None:
        if not board.task.config:
            raise TaskError(f"{board.task.name} has no 'config' that names its program")
        self.board = board
        self.mode = mode
        self.sandbox = sandbox
        self.config: ScriptConfig = board.task.config
        self.on_progress = on_progress or (lambda _: None)
        self.recipe = recipe
        self.files = {name: content.decode() for name, content in board.task.files.items()}
        self.files[board.task.submission_name] = submission.text
        self.results: list[CaseResult] = []
        self.log = ""
        """Last part of the output of the last process."""

    def play(self) -> None:
        """Build, tests, benchmarks, until one of them is not accepted."""
        self.results.append(self._build())
        if self.is_accepted:
            self.results += self._play_tests()
        if self.is_accepted and self.mode in (Mode.BENCHMARK, Mode.RANKED):
            self.results += self._play_benchmarks()

    @property
    def is_accepted(self) -> bool:
        return all(result.verdict is Verdict.ACCEPTED for result in self.results)

    # ------------------------------------------------------------------ build

    def _build(self) -> CaseResult:
        limit_s = self.board.limits.compile_timeout_s
        self._report("build", 0, 1)
        command = (*self.recipe.command, "-o", self._built) if self.recipe else (sys.executable, "submission.py")
        ended = self._run(command, self.files, refuse_any, limit_s, "The build", building=True)
        foul = ended.foul
        if not foul and ended.exit_code != 0:
            is_too_large = self.recipe and ran_out_of_memory(ended.log)
            verdict = Verdict.MEMORY_LIMIT_EXCEEDED if is_too_large else Verdict.COMPILE_ERROR
            foul = Foul(verdict, self._why_not_built(ended))
        return CaseResult.of(CaseKind.BUILD, {}, foul, ended.seconds)

    @property
    def _built(self) -> str:
        """Path of the compiled program."""
        return str(self.sandbox.cache / "eval.out")

    def _why_not_built(self, ended: Ended) -> str:
        if ended.exit_code is None:
            return how_it_ended(ended.status or 0, ended.log)
        if self.recipe:
            return explain(ended.exit_code, ended.log)
        return _last_words(ended.log) or f"submission.py exited with code {ended.exit_code}."

    # ------------------------------------------------------------------ tests and benchmarks

    def _play_tests(self) -> list[CaseResult]:
        seed = self._seed()
        played = self._play(self.board.tests, self.board.limits.test_timeout_s, seed)
        return [
            CaseResult.of(CaseKind.TEST, case.params, foul, played.seconds, seed=seed)
            for case, _, foul in played.verdicts(self.board.tests)
        ]

    def _play_benchmarks(self) -> list[CaseResult]:
        cases = self.board.benchmarks
        times: list[list[ToldRun]] = [[] for _ in cases]
        limits, began, longest_s = self.board.limits, time.monotonic(), 0.0
        limit_s = limits.ranked_timeout_s if self.mode is Mode.RANKED else limits.benchmark_timeout_s
        wanted = MIN_PAIRS if self.mode is Mode.RANKED else 1
        for order in range(wanted):
            left_s = limit_s - (time.monotonic() - began)
            if order and left_s < 1.5 * longest_s:
                break
            seed = self._seed()
            played = self._play(cases, left_s, seed, order, wanted)
            if order and played.is_late:
                break  # This one had less than the full time; the earlier ones count.
            verdicts = list(played.verdicts(cases))
            if any(foul for _, _, foul in verdicts):
                return [self._timed(case, [], foul, played.seconds) for case, told, foul in verdicts if foul]
            for runs, (_, told, _) in zip(times, verdicts, strict=True):
                assert told
                runs.append(ToldRun(order=order, seed=seed, **vars(told)))
            longest_s = max(longest_s, played.seconds)
        seconds = time.monotonic() - began
        return [self._timed(case, runs, None, seconds) for case, runs in zip(cases, times, strict=True)]

    def _timed(self, case: Case, runs: list[ToldRun], foul: Foul | None, seconds: float) -> CaseResult:
        note = ""
        if self.mode is Mode.RANKED and len(runs) < MIN_PAIRS:
            note = f"only {len(runs)} of {MIN_PAIRS} processes fit into the time: the interval is the program's own"
        told = None if foul else ToldTiming.of(tuple(runs), note)
        return CaseResult.of(CaseKind.BENCHMARK, case.params, foul, seconds, told=told)

    def _play(
        self, cases: Sequence[Case], seconds: float, seed: int | None, order: int = 0, of: int = 1
    ) -> _ProgramRun:
        """Have a fresh process of the task's program judge these cases, all of one kind."""
        kind = cases[0].kind
        lines = Lines(kind, len(cases))
        self._report(str(kind), order * len(cases), of * len(cases))
        command = (self._built,) if self.recipe else (sys.executable, str(self.config.main))
        files = self.files | {_CASES: "".join(f"{case_line(case.params)}\n" for case in cases)}
        words = (*command, mode_argument(self.mode, kind), _CASES)
        ended = self._run(words, files, lines.feed, seconds, f"The {kind}s", seed=seed)
        return _ProgramRun(lines, ended)

    def _run(
        self,
        command: tuple[str, ...],
        files: dict[str, str],
        take: Callable[[bytes], None],
        seconds: float,
        what: str,
        *,
        seed: int | None = None,
        building: bool = False,
    ) -> Ended:
        environment = {"POPCORN_FD": str(RESULTS), "PYTHONUNBUFFERED": "1"}
        if self.board.task.multi_gpu:
            environment["POPCORN_GPUS"] = str(self.board.world_size)  # the number of ranks to start
        # The interpreter finds its own packages, but not those that were added to our path.
        if extra := [path for path in sys.path if "-packages" in path and path not in site.getsitepackages()]:
            environment["PYTHONPATH"] = ":".join(extra)
        if building and self.recipe:
            environment["LC_ALL"] = "C"  # messages in ASCII, with quotes that every terminal has
        if seed is not None:
            environment["POPCORN_SEED"] = str(seed)
        entry = PlayerFiles(name="submission", files=files, cache="submission")
        ended = run(
            self.sandbox,
            entry,
            Program(command=command, environment=environment),
            take,
            seconds=seconds,
            late=f"{what} took more than {seconds:.3g} s.",
            building=building,
        )
        if building and not ended.foul:  # after a foul no later player needs the cache, and the program may still run
            try:
                self.sandbox.seal(entry)
            except Foul as foul:
                ended = replace(ended, foul=foul)
        self.log = ended.log[-MAX_MESSAGE:] or self.log
        return ended

    def _seed(self) -> int | None:
        """A random seed in mode `ranked`; otherwise None, so that the seeds in task.yml make it repeatable."""
        return secrets.randbits(31) if self.mode is Mode.RANKED else None

    def _report(self, step: str, done: int, total: int) -> None:
        self.on_progress(Progress(step=step, done=done, total=total))


class _ProgramRun:
    """The reports of one process, and how it ended."""

    def __init__(self, lines: Lines, ended: Ended) -> None:
        self.seconds = ended.seconds
        self.is_late = ended.foul is not None and ended.foul.verdict is Verdict.TIME_LIMIT_EXCEEDED
        self.told: list[CaseReport | None] = []
        self.foul = ended.foul
        try:
            self.told = lines.end(ended.seconds)
        except Foul as foul:
            self.foul = self.foul or foul
        if not self.foul:
            self.foul = _how_it_failed(lines, ended)

    def verdicts(self, cases: Sequence[Case]) -> Iterator[tuple[Case, Times | None, Foul | None]]:
        """The reported cases, and the one at which the program failed, if it did."""
        told = [] if self.foul and self.foul.verdict is Verdict.SECURITY_VIOLATION else self.told
        spoken = [(case, one) for case, one in zip(cases, told, strict=False) if one]
        silent = [case for case, one in zip(cases, [*told, *([None] * len(cases))], strict=False) if not one]
        if self.foul and not silent:
            # It failed after reporting all cases: blame the last one.
            silent, spoken = [spoken[-1][0]], spoken[:-1]
        for case, one in spoken:
            foul = None if one.is_right else Foul(Verdict.WRONG_ANSWER, one.message)
            yield case, one.times, foul
        if self.foul:
            yield silent[0], None, self.foul


def _how_it_failed(lines: Lines, ended: Ended) -> Foul | None:
    """Why a program that was not stopped gave no valid result; None if it gave a verdict."""
    if ended.exit_code is not None and lines.is_complete:
        return None  # The verdict counts, not the exit code: a failed run may exit with 0.
    if ended.exit_code == _TOO_LATE:
        return Foul(Verdict.TIME_LIMIT_EXCEEDED, "The task's program says that a call took too long.")
    words = _last_words(ended.log)
    if is_out_of_memory(words):
        return Foul(Verdict.MEMORY_LIMIT_EXCEEDED, words)
    if ended.exit_code is None:
        return Foul(Verdict.RUN_TIME_ERROR, how_it_ended(ended.status or 0, ended.log))
    why = _ERRORS_OF_THEIRS.get(ended.exit_code, "")
    how = f"The task's program exited with code {ended.exit_code} before it gave a verdict{why and '; '}{why}."
    return Foul(Verdict.RUN_TIME_ERROR, f"{words}\n\n{how}" if words else how)


def _last_words(log: str) -> str:
    """The last line of the output; if it ends a traceback, with the line of the submission at fault."""
    lines = log.strip().splitlines()
    frames = _FRAME.findall(log)
    return f"line {frames[-1]}: {lines[-1]}" if frames else lines[-1] if lines else ""
