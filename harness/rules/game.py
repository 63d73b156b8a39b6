"""The rules of the game: what one submission plays, until something is not accepted.

build        import the submission, call it once per shape; CE if that fails
tests        all of them, so that the participant sees every failure
benchmarks   if all tests are accepted: in random order, beside the anchor; or each of them once, to be profiled, and
             once more below the vendor's profiler, where there is a GPU
duel         if it could be first: beside the champion
"""

from __future__ import annotations

import random
import time
from pathlib import Path

from harness.gpu.vendors import Profiler
from harness.records.counters import Counters
from harness.records.errors import TaskError
from harness.records.fields import MAX_MESSAGE, CaseKind, Mode
from harness.records.judgement import CaseResult
from harness.records.stats import MIN_PAIRS, score
from harness.records.times import Duel
from harness.records.verdict import Foul, Verdict
from harness.referee import sampling
from harness.rules.arena import Arena, OutOfTime, Phase, SideFoul, result
from harness.rules.duel import play_duel
from harness.task.submission import Champion, Submission, read_submission
from harness.task.task import Board, Case

STEADY_S = {Mode.RANKED: 2.5, Mode.BENCHMARK: 0.0}
"""How long a benchmark may go on beyond its six pairs until its ratio is steady."""


class Game:
    """One judging under way: who plays, what has come out so far."""

    def __init__(
        self,
        arena: Arena,
        submission: Submission,
        champion: Champion | None = None,
        *,
        mode: Mode | None = None,
        name: str = "submission",
        pairs: int = MIN_PAIRS,
        reports: Path | None = None,
    ) -> None:
        """`mode` may be less than the arena's; `name` is of the submission's cache, which no other may have filled.

        `pairs` of runs are the least that a benchmark is timed by; `reports` is the folder for a vendor's profiler's.
        """
        self.arena = arena
        self.board = arena.board
        self.mode = mode or arena.mode
        self.pairs = pairs
        self.reports = reports
        self.submission = submission
        self.champion = champion
        self.challenger = arena.entry(name, submission)
        self.anchor = arena.entry("anchor", _anchor_of(arena.board))
        self.results: list[CaseResult] = []
        self.duel: Duel | None = None
        self.message = ""

    def play(self) -> None:
        """Build, tests, benchmarks, duel, until one of them is not accepted."""
        self.results = self.arena.examine(
            self.challenger, [*self.board.tests, *(self.board.benchmarks if self.mode is not Mode.TEST else ())]
        )
        if self.is_accepted and self.is_timed:
            self._play_benchmarks()
        if self.is_accepted and self.mode is Mode.PROFILE:
            self._play_profiles()
        if self.is_accepted and self.mode is Mode.PROFILE and self.arena.profiler:
            self._count(self.arena.profiler)
        if self.is_accepted and self.champion and self._could_be_first(self.champion):
            self._play_duel(self.champion)

    @property
    def is_timed(self) -> bool:
        return self.mode in (Mode.BENCHMARK, Mode.RANKED)

    @property
    def is_accepted(self) -> bool:
        return all(result.verdict is Verdict.ACCEPTED for result in self.results)

    @property
    def log(self) -> str:
        """The end of what the submission printed."""
        return self.arena.logs.get(self.challenger.name, "")

    # ------------------------------------------------------------------ benchmarks

    def _play_benchmarks(self) -> None:
        limits, benchmarks = self.board.limits, self.board.benchmarks
        self.arena.report("benchmark", 0, len(benchmarks))
        try:
            self.arena.require_build(self.anchor)
        except SideFoul as fault:
            raise self.arena.our_fault(fault) from None
        phase_s = limits.ranked_timeout_s if self.mode is Mode.RANKED else limits.benchmark_timeout_s
        phase = self.arena.phase("the benchmarks", phase_s)
        results: dict[int, CaseResult] = {}
        order = random.SystemRandom().sample(range(len(benchmarks)), len(benchmarks))
        began = time.monotonic()
        for done, index in enumerate(order):
            left = (time.monotonic() - began) / done * (len(order) - done) if done else None
            self.arena.report("benchmark", done, len(order), left)
            results[index] = self._play_benchmark(benchmarks[index], phase)
            if results[index].verdict is not Verdict.ACCEPTED:
                break
        self.results += [results[index] for index in sorted(results)]

    def _play_benchmark(self, case: Case, phase: Phase) -> CaseResult:
        start = time.monotonic()
        timing, foul = None, None
        try:
            timing = sampling.time_case(
                self.arena.runs_of(self.challenger, case, phase),
                self.arena.runs_of(self.anchor, case, phase),
                self.arena.calibrate(case, phase),
                min(STEADY_S[self.mode], max(0.0, phase.deadline.phase_ends - time.monotonic())),
                self.pairs,
            )
        except SideFoul as fault:
            foul = self._own(fault)
        digests = self.arena.digests.get((self.challenger.name, case.name))
        return result(CaseKind.BENCHMARK, case.params, foul, start, timing=timing, digests=digests)

    def _own(self, fault: SideFoul) -> Foul:
        """The submission's foul; everybody else here is ours."""
        if fault.side != self.challenger.name:
            raise self.arena.our_fault(fault) from None
        return fault.foul

    def _play_profiles(self) -> None:
        benchmarks = self.board.benchmarks
        phase = self.arena.phase("the profiles", self.board.limits.benchmark_timeout_s)
        for done, case in enumerate(benchmarks):
            self.arena.report("profile", done, len(benchmarks))
            start, profile, foul = time.monotonic(), None, None
            try:
                profile = self.arena.profile(self.challenger, case, phase)
            except SideFoul as fault:
                foul = self._own(fault)
            self.results.append(result(CaseKind.PROFILE, case.params, foul, start, profile=profile))

    def _count(self, profiler: Profiler) -> None:
        """Have the vendor's profiler watch each benchmark's call, and add what it counts to the profiles."""
        phase = self.arena.phase("the counters", self.board.limits.benchmark_timeout_s)
        first = len(self.results) - len(self.board.benchmarks)
        for done, case in enumerate(self.board.benchmarks):
            self.arena.report("counters", done, len(self.board.benchmarks))
            counters, report = self.arena.watch(self.challenger, case, phase, profiler)
            counters = self._keep(counters, report, done + 1)
            result = self.results[first + done]
            assert result.profile
            profile = result.profile.model_copy(update={"counters": counters})
            self.results[first + done] = result.model_copy(update={"profile": profile})

    def _keep(self, counters: Counters, report: bytes, number: int) -> Counters:
        """Write a report where reports are wanted.  What it holds nobody here looks at."""
        if not self.reports or not counters.report_bytes:
            return counters.model_copy(update={"report_bytes": 0})
        (self.reports / counters.report_name(number)).write_bytes(report)
        return counters

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
        """A duel that can't be played, by no fault of the challenger's, decides nothing."""
        start, opponent = time.monotonic(), champion.submission
        theirs = self.arena.entry("champion", opponent)
        try:
            self.arena.require_build(theirs)
            self.duel = play_duel(self.arena, self.challenger, theirs, opponent)
        except OutOfTime as error:
            self._void_duel(opponent, str(error))
        except SideFoul as fault:
            if fault.side == theirs.name:
                why = f"the first place's file got {fault.foul.verdict} this time: {fault.foul.message}"
                self._void_duel(opponent, why)
            else:
                # Right in every benchmark, and wrong now: it is not right.
                foul = self._own(fault)
                self.results.append(result(CaseKind.BENCHMARK, fault.case.params, foul, start))

    def _void_duel(self, opponent: Submission, why: str) -> None:
        self.message = f"The duel with {opponent.login} is void: {why}"[:MAX_MESSAGE]


def _anchor_of(board: Board) -> Submission:
    if board.task.anchor is None:
        raise TaskError(f"{board.task.name}: no anchor; put an accepted example into examples/accepted/")
    return read_submission(board.task.anchor, login="anchor")
