"""The rules of the game: who plays what, until something is not accepted.

build        import the submission, call it once per shape; CE if that fails
tests        all of them, so that the participant sees every failure
benchmarks   if all tests are accepted: in random order, beside the anchor
duel         if it could be first: beside the champion
"""

from __future__ import annotations

import contextlib
import math
import random
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness import clock
from harness.checker import Reference
from harness.clock import NULL_KERNEL, SAMPLES, WARMUPS, Windows
from harness.devices import cpu
from harness.errors import JudgeError, TaskError
from harness.judgement import MAX_MESSAGE, CaseKind, CaseResult, Duel, DuelCase, Mode, Timing
from harness.progress import OnProgress, Progress
from harness.referee import Deadline, Table
from harness.sandbox import Entry, Player, Sandbox
from harness.stats import Interval, is_faster, ratio_interval, score
from harness.submission import Champion, Submission, read_submission
from harness.task import Board, Case, Ranking
from harness.verdict import Foul, Verdict

STEADY_S = {Mode.RANKED: 2.5, Mode.BENCHMARK: 0.0}
"""How long a benchmark may go on beyond its six pairs until its ratio is steady."""
DUEL_BLOCKS = 8


@dataclass(frozen=True)
class Side:
    """Who plays: the submission, the anchor, the champion, or an idle player that shows what a window costs."""

    entry: Entry
    is_champion: bool = False


class _VoidDuel(Exception):
    """A duel that could not be played, by no fault of the challenger's."""


class Game:
    """One judging under way: who plays, what has come out so far."""

    def __init__(
        self, board: Board, submission: Submission, mode: Mode, champion: Champion | None, on_progress: OnProgress
    ) -> None:
        self.board = board
        self.mode = mode
        self.submission = submission
        self.champion = champion
        self.on_progress = on_progress
        self.results: list[CaseResult] = []
        self.duel: Duel | None = None
        self.log = ""
        self.message = ""
        self.is_dueling = False
        self.challenger_s = 0.0

    def play(self, sandbox: Sandbox) -> None:
        """Build, tests, benchmarks, duel, until one of them is not accepted."""
        with cpu.one_thread():
            self._play(sandbox)

    def _play(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self.reference = Reference(self.board)
        self.challenger = Side(self._entry("submission", self.submission))
        self.anchor = Side(self._entry("anchor", _anchor_of(self.board)))
        idle = Submission(login="idle", source=NULL_KERNEL.encode(), name="submission.py")
        self.idler = Side(self._entry("idle player", idle))
        cases = [*self.board.tests, *(self.board.benchmarks if self.is_timed else ())]
        self._report("build", 0, 1)
        for case in cases:
            self.reference.probe(case.params)
        self.results.append(self._build(self.challenger, cases))
        if self.is_accepted:
            self._play_tests()
        if self.is_accepted and self.is_timed:
            self._play_benchmarks()
        if self.is_accepted and self.champion and self._could_be_first(self.champion):
            self._play_duel(self.champion)

    @property
    def is_timed(self) -> bool:
        return self.mode in (Mode.BENCHMARK, Mode.RANKED)

    @property
    def is_accepted(self) -> bool:
        return all(result.verdict is Verdict.ACCEPTED for result in self.results)

    def _entry(self, name: str, submission: Submission) -> Entry:
        shared = {file: content.decode() for file, content in self.board.task.shared_files.items()}
        return Entry(name=name, files={**shared, "submission.py": submission.text})

    # ------------------------------------------------------------------ build

    def _build(self, side: Side, cases: list[Case]) -> CaseResult:
        """Import a submission and call it once per shape on throw-away inputs; its caches are sealed after."""
        limits = self.board.limits
        start = time.monotonic()
        # A first call may compile, and may take a good part of the build's time for it.
        call_s = max(limits.case_timeout_s, limits.compile_timeout_s / 4)
        deadline = Deadline.of(limits.compile_timeout_s, call_s)
        foul: Foul | None = None
        with self.sandbox.seat(side.entry, building=True) as player:
            try:
                table = Table(player, self.reference)
                table.load(limits.compile_timeout_s)
                # What goes wrong in a call is found again, and reported, by the case itself.
                with contextlib.suppress(Foul):
                    for case in cases:
                        table.call(case.params, self._seed(), deadline, checked=False)
            except Foul as error:
                foul = error
            if side is self.challenger:
                self._keep_log(player)
        return _result(CaseKind.BUILD, {}, foul, start)

    # ------------------------------------------------------------------ tests

    def _play_tests(self) -> None:
        limits = self.board.limits
        deadline = Deadline.of(limits.test_timeout_s, limits.case_timeout_s)
        waiting = list(self.board.tests)
        while waiting and not deadline.is_over:
            with self.sandbox.seat(self.challenger.entry) as player:
                self._play_tests_with(player, waiting, deadline)
        for case in waiting:
            message = f"Not played: the tests together took over {limits.test_timeout_s:g} s."
            foul = Foul(Verdict.TIME_LIMIT_EXCEEDED, message)
            self.results.append(_result(CaseKind.TEST, case.params, foul, time.monotonic()))

    def _play_tests_with(self, player: Player, waiting: list[Case], deadline: Deadline) -> None:
        """Play tests until all are done or the player is of no more use."""
        table = Table(player, self.reference)
        is_loaded = False
        while waiting and not deadline.is_over:
            case = waiting.pop(0)
            self._report("test", len(self.board.tests) - len(waiting) - 1, len(self.board.tests))
            # Trying is repeatable: the seeds that stand in task.yml.  Ranking is on seeds that nobody knows.
            seed = case.public_seed if self.mode is Mode.TEST else None
            seed = self._seed() if seed is None else seed
            start, foul = time.monotonic(), None
            try:
                if not is_loaded:
                    table.load(self.board.limits.compile_timeout_s)
                    is_loaded = True
                table.call(case.params, seed, deadline)
            except Foul as error:
                foul = error
            self.results.append(_result(CaseKind.TEST, case.params, foul, start, seed))
            if foul and foul.verdict is not Verdict.WRONG_ANSWER:
                break
        self._keep_log(player)

    # ------------------------------------------------------------------ benchmarks

    def _play_benchmarks(self) -> None:
        limits = self.board.limits
        self._report("benchmark", 0, len(self.board.benchmarks))
        self._require_build(self.anchor)
        phase_s = limits.ranked_timeout_s if self.mode is Mode.RANKED else limits.benchmark_timeout_s
        deadline = Deadline.of(phase_s, limits.case_timeout_s)
        results: dict[int, CaseResult] = {}
        order = random.SystemRandom().sample(range(len(self.board.benchmarks)), len(self.board.benchmarks))
        began = time.monotonic()
        for done, index in enumerate(order):
            left = (time.monotonic() - began) / done * (len(order) - done) if done else None
            self._report("benchmark", done, len(order), left)
            results[index] = self._play_benchmark(self.board.benchmarks[index], deadline)
            if results[index].verdict is not Verdict.ACCEPTED:
                break
        self.results += [results[index] for index in sorted(results)]

    def _play_benchmark(self, case: Case, deadline: Deadline) -> CaseResult:
        start = time.monotonic()
        timing, foul = None, None
        try:
            overhead_us = self._calibrate(case, deadline)
            timing = clock.time_case(
                self._runs_of(self.challenger, case, deadline),
                self._runs_of(self.anchor, case, deadline),
                overhead_us,
                min(STEADY_S[self.mode], max(0.0, deadline.phase_ends - time.monotonic())),
            )
        except Foul as error:
            foul = error
        return _result(CaseKind.BENCHMARK, case.params, foul, start, timing=timing)

    def _require_build(self, side: Side) -> None:
        build = self._build(side, list(self.board.benchmarks))
        if build.verdict is not Verdict.ACCEPTED:
            raise self._blame(side, Foul(build.verdict, build.message))

    def _calibrate(self, case: Case, deadline: Deadline) -> float:
        """What a window costs with this case's inputs when nothing is computed, in microseconds."""
        return clock.calibrate(self._runs_of(self.idler, case, deadline))

    def _runs_of(self, side: Side, case: Case, deadline: Deadline) -> clock.Play:
        """How one side plays one run of a case: a fresh player, warm-ups and samples, every output checked."""

        def play(_: int) -> Windows:
            with self.sandbox.seat(side.entry) as player:
                table = Table(player, self.reference)
                try:
                    table.load(self.board.limits.compile_timeout_s)
                    # Drawn only now that the submission is loaded.
                    seeds = tuple(self._seed() for _ in range(WARMUPS + SAMPLES))
                    windows = table.calls(case.params, seeds, deadline, checked=side is not self.idler)
                except Foul as foul:
                    raise self._blame(side, foul, deadline) from None
                finally:
                    if side is self.challenger:
                        self.challenger_s += table.running_s
                        self._keep_log(player)
            return Windows(windows_us=windows, seeds=seeds)

        return play

    def _blame(self, side: Side, foul: Foul, deadline: Deadline | None = None) -> Exception:
        """Whose fault a foul is: the submission's, the champion's, or ours."""
        task = self.board.task.name
        if deadline and deadline.is_over and foul.verdict is Verdict.TIME_LIMIT_EXCEEDED:
            # A phase that ran out of time is the submission's fault only if most of the time went into its windows.
            if self.challenger_s > deadline.phase_s / 2:
                return Foul(foul.verdict, f"Its calls took most of the {deadline.phase_s:g} s for all benchmarks.")
            if self.is_dueling:
                return _VoidDuel(f"it did not fit into {deadline.phase_s:g} s")
            return JudgeError(
                f"{task}: the benchmarks did not fit into {deadline.phase_s:g} s on this machine, and not because of "
                "the submission: allow more in task.yml, or judge on a quieter machine"
            )
        if side is self.challenger:
            return foul
        if side.is_champion:
            return _VoidDuel(f"the first place's file got {foul.verdict} this time: {foul.message}")
        return JudgeError(f"{task}: {side.entry.name} got {foul.verdict}: {foul.message}")

    # ------------------------------------------------------------------ duel

    def _could_be_first(self, champion: Champion) -> bool:
        """Whether the interval of the score reaches below the champion's: only then a duel decides anything."""
        theirs, ours = champion.submission, self.submission
        ratios = [case.timing.ratio for case in self.results if case.timing]
        if self.mode is not Mode.RANKED or len(ratios) != len(champion.nominal_us):
            return False
        if theirs.digest == ours.digest or theirs.login.lower() == ours.login.lower():
            return False
        times = [ratio.scaled(nominal) for ratio, nominal in zip(ratios, champion.nominal_us, strict=True)]
        return score(times, self.board.ranking_by).low < champion.score.value

    def _play_duel(self, champion: Champion) -> None:
        """Eight blocks A-B-B-A on every benchmark that counts.  A duel that can't be played decides nothing."""
        self.is_dueling, self.challenger_s = True, 0.0
        side = Side(self._entry("champion", champion.submission), is_champion=True)
        try:
            cases = self._duel_on_all_cases(side)
        except _VoidDuel as void:
            self.message = f"The duel with {champion.submission.login} is void: {void}"[:MAX_MESSAGE]
            return
        if not self.is_accepted:
            return
        ratio = duel_ratio(cases, self.board.ranking_by)
        self.duel = Duel(
            opponent=champion.submission.login,
            opponent_digest=champion.submission.digest,
            cases=cases,
            ratio=ratio,
            won=is_faster(ratio),
        )

    def _duel_on_all_cases(self, champion: Side) -> tuple[DuelCase, ...]:
        self._require_build(champion)
        deadline = Deadline.of(self.board.limits.ranked_timeout_s, self.board.limits.case_timeout_s)
        benchmarks = self.board.benchmarks if self.board.ranking_by is not Ranking.LAST else self.board.benchmarks[-1:]
        cases = []
        for done, case in enumerate(benchmarks):
            self._report("duel", done, len(benchmarks))
            start = time.monotonic()
            try:
                cases.append(self._duel_on(case, champion, deadline))
            except Foul as foul:
                # Right in every benchmark, and wrong now: it is not right.
                self.results.append(_result(CaseKind.BENCHMARK, case.params, foul, start))
                break
        return tuple(cases)

    def _duel_on(self, case: Case, champion: Side, deadline: Deadline) -> DuelCase:
        challenger_runs, champion_runs = clock.play_blocks(
            self._runs_of(self.challenger, case, deadline),
            self._runs_of(champion, case, deadline),
            self._calibrate(case, deadline),
            DUEL_BLOCKS,
        )
        return DuelCase(params=dict(case.params), challenger=challenger_runs, champion=champion_runs)

    # ------------------------------------------------------------------ small things

    def _seed(self) -> int:
        # 31 bits: every library's generator takes as many.
        return secrets.randbits(31)

    def _report(self, step: str, done: int, total: int, seconds_left: float | None = None) -> None:
        self.on_progress(Progress(step=step, done=done, total=total, seconds_left=seconds_left))

    def _keep_log(self, player: Player) -> None:
        if printed := player.log:
            self.log = printed[-MAX_MESSAGE:]


def duel_ratio(cases: tuple[DuelCase, ...], ranking_by: str) -> Interval:
    """Challenger / champion over a duel's blocks, the cases of a block taken together as the board ranks them."""
    by_case = [clock.block_times(case.challenger, case.champion) for case in cases]
    return ratio_interval([_block_ratio(block, ranking_by) for block in zip(*by_case, strict=True)])


def _block_ratio(block: tuple[tuple[float, float], ...], ranking_by: str) -> float:
    if ranking_by == "mean":
        return sum(ours for ours, _ in block) / sum(theirs for _, theirs in block)
    return math.prod(ours / theirs for ours, theirs in block) ** (1 / len(block))


def _result(
    kind: CaseKind,
    params: Mapping[str, Any],
    foul: Foul | None,
    start: float,
    seed: int | None = None,
    timing: Timing | None = None,
) -> CaseResult:
    return CaseResult(
        kind=kind,
        params=dict(params),
        verdict=foul.verdict if foul else Verdict.ACCEPTED,
        message=foul.message[:MAX_MESSAGE] if foul else "",
        seconds=time.monotonic() - start,
        seed=seed,
        timing=timing,
    )


def _anchor_of(board: Board) -> Submission:
    if board.task.anchor is None:
        raise TaskError(f"{board.task.name}: no anchor; put an accepted example into examples/accepted/")
    return read_submission(board.task.anchor, login="anchor")
