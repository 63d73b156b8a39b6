"""The rules of the game: build, tests, benchmarks, duel.  `examine` has the first two.

build        import the submission, and call it once per shape; CE if the import fails
tests        all of them, so that the participant sees every failure
benchmarks   if all tests are accepted: in random order, alternating with the anchor; in mode `profile` instead one
             profiled call each, and on a GPU another one under the vendor's profiler
duel         if it could take first place: against the champion

`Game` judges one submission.  `Match` plays any two files against each other.
"""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from harness.gpu.vendor_profilers import Profiler
from harness.records.counters import Counters
from harness.records.errors import JudgeError, PullRankError, TaskError
from harness.records.fields import MAX_MESSAGE, CaseKind, Mode
from harness.records.judgement import CaseResult
from harness.records.stats import MIN_PAIRS, RETRY_S, score
from harness.records.times import Duel, Forfeit
from harness.records.verdict import Foul, Verdict
from harness.referee import sampling
from harness.rules.context import ANCHOR, Context
from harness.rules.duel import play_duel
from harness.rules.examine import examine, require_build
from harness.rules.phase import Phase, SideFoul
from harness.rules.runs import Runs
from harness.sandbox.sandbox import PlayerFiles
from harness.task.submission import Champion, Submission, read_submission
from harness.task.task import Board, Case

STEADY_S = {Mode.RANKED: 2.5, Mode.BENCHMARK: 0.0}
"""Seconds that a benchmark may continue after its six pairs until its ratio is steady."""


class Game:
    """One judging in progress: its players and the results so far."""

    def __init__(
        self,
        context: Context,
        submission: Submission,
        champion: Champion | None = None,
        *,
        mode: Mode | None = None,
        name: str = "submission",
        pairs: int = MIN_PAIRS,
        until_failure: bool = False,
        reports: Path | None = None,
        profiled: Sequence[Case] = (),
        require_unhindered: Callable[[], None] = lambda: None,
    ) -> None:
        """Set up the players.

        Args:
            champion: dueled if the submission could take its place; in mode `ranked` only.
            mode: may do less than the context's mode, which is the default.
            name: of the submission's cache folder; no other submission may have used it.
            pairs: minimum number of pairs of runs per benchmark.
            until_failure: play no test after the first that is not accepted, which decides the verdict.
            reports: folder for the reports of a vendor's profiler.
            profiled: the benchmarks to profile.  Default: all.
            require_unhindered: raises JudgeError if something outside hindered the device so far; called before a duel.
        """
        self.context = context
        self.board = context.board
        self.mode = mode or context.mode
        self.pairs = pairs
        self.until_failure = until_failure
        self.reports = reports
        self.profiled = profiled or context.board.benchmarks
        self.require_unhindered = require_unhindered
        self.submission = submission
        self.champion = champion
        self.challenger = context.entry(name, submission)
        self.anchor = context.entry(ANCHOR, _anchor_of(context.board))
        self.runs = Runs(context, pace=self.anchor)
        self.results: list[CaseResult] = []
        self.duel: Duel | None = None
        self.forfeit: Forfeit | None = None
        self.message = ""
        self.has_dueled = False
        """Whether a duel has begun.  From then on, a failure of the judge or the machine makes only the duel void."""

    def play(self) -> None:
        """Build, tests, benchmarks, duel, until one of them is not accepted."""
        self.results = examine(
            self.context,
            self.challenger,
            [*self.board.tests, *(self.board.benchmarks if self.mode is not Mode.TEST else ())],
            until_failure=self.until_failure,
        )
        if self.is_accepted and self.is_timed:
            self._play_benchmarks()
        if self.is_accepted and self.mode is Mode.PROFILE:
            self._play_profiles()
        if self.is_accepted and self.mode is Mode.PROFILE and self.context.profiler:
            self._count(self.context.profiler)
        if self.is_accepted and self.champion and self._could_be_first(self.champion):
            self.context.sandbox.require_health()
            self.require_unhindered()
            self.has_dueled = True
            try:
                self._play_duel(self.champion)
            except (JudgeError, TaskError) as error:
                self.void_duel(error)

    @property
    def is_timed(self) -> bool:
        return self.mode in (Mode.BENCHMARK, Mode.RANKED)

    @property
    def is_accepted(self) -> bool:
        return all(result.verdict is Verdict.ACCEPTED for result in self.results)

    @property
    def log(self) -> str:
        """Last part of the submission's output."""
        return self.context.logs.get(self.challenger.name, "")

    # ------------------------------------------------------------------ benchmarks

    def _play_benchmarks(self) -> None:
        limits, benchmarks = self.board.limits, self.board.benchmarks
        self.context.report("benchmark", 0, len(benchmarks))
        try:
            require_build(self.context, self.anchor)
        except SideFoul as fault:
            raise self.context.our_fault(fault) from None
        phase_s = limits.ranked_timeout_s if self.mode is Mode.RANKED else limits.benchmark_timeout_s
        phase = self.context.phase("the benchmarks", phase_s)
        results: dict[int, CaseResult] = {}
        order = random.SystemRandom().sample(range(len(benchmarks)), len(benchmarks))
        began = time.monotonic()
        for done, index in enumerate(order):
            left = (time.monotonic() - began) / done * (len(order) - done) if done else None
            self.context.report("benchmark", done, len(order), left)
            results[index] = self._play_benchmark(benchmarks[index], phase)
            if results[index].verdict is not Verdict.ACCEPTED:
                break
        self.results += [results[index] for index in sorted(results)]

    def _play_benchmark(self, case: Case, phase: Phase) -> CaseResult:
        start = time.monotonic()
        timing, foul = None, None
        try:
            timing = sampling.time_case(
                self.runs.of(self.challenger, case, phase),
                self.runs.of(self.anchor, case, phase),
                self.runs.overhead(case, phase),
                min(STEADY_S[self.mode], phase.deadline.left_s),
                self.pairs,
                loop_us=self.runs.loop_us(case),
            )
        except SideFoul as fault:
            foul = self._own(fault)
        seconds, digests = time.monotonic() - start, self.context.digests.get((self.challenger.name, case.name))
        return CaseResult.of(
            CaseKind.BENCHMARK, case.params, foul, seconds, timing=timing, digests=None if foul else digests
        )

    def _own(self, fault: SideFoul) -> Foul:
        """The foul, if it is the submission's.  Raises JudgeError for all other players, which are the judge's."""
        if fault.side != self.challenger.name:
            raise self.context.our_fault(fault) from None
        return fault.foul

    def _play_profiles(self) -> None:
        phase = self.context.phase("the profiles", self.board.limits.benchmark_timeout_s)
        for done, case in enumerate(self.profiled):
            self.context.report("profile", done, len(self.profiled))
            start, profile, foul = time.monotonic(), None, None
            try:
                profile = self.runs.profile(self.challenger, case, phase)
            except SideFoul as fault:
                foul = self._own(fault)
            seconds = time.monotonic() - start
            self.results.append(CaseResult.of(CaseKind.PROFILE, case.params, foul, seconds, profile=profile))

    def _count(self, profiler: Profiler) -> None:
        """Run a call of each benchmark under the vendor's profiler, and add its counters to the profiles."""
        phase = self.context.phase("the counters", self.board.limits.benchmark_timeout_s)
        first = len(self.results) - len(self.profiled)
        for done, case in enumerate(self.profiled):
            self.context.report("counters", done, len(self.profiled))
            start = time.monotonic()
            try:
                counters, report = self.runs.count(self.challenger, case, phase, profiler)
            except SideFoul as fault:
                seconds = time.monotonic() - start
                self.results.append(CaseResult.of(CaseKind.PROFILE, case.params, self._own(fault), seconds))
                return
            counters = self._keep(counters, report, self.board.benchmarks.index(case) + 1)
            played = self.results[first + done]
            assert played.profile
            profile = played.profile.model_copy(update={"counters": counters})
            self.results[first + done] = played.model_copy(update={"profile": profile})

    def _keep(self, counters: Counters, report: bytes, number: int) -> Counters:
        """Write a report to `reports`, if set.  Its content is untrusted and not read here."""
        if not self.reports or not counters.report_bytes:
            return counters.model_copy(update={"report_bytes": 0})
        (self.reports / counters.report_name(number)).write_bytes(report)
        return counters

    # ------------------------------------------------------------------ duel

    def _could_be_first(self, champion: Champion) -> bool:
        """Whether the interval of the score reaches below the champion's score, so that a duel makes sense."""
        theirs, ours = champion.submission, self.submission
        ratios = [case.timing.ratio for case in self.results if case.timing]
        if self.mode is not Mode.RANKED or len(ratios) != len(champion.nominal_us):
            return False
        if theirs.digest == ours.digest or theirs.login.lower() == ours.login.lower():
            return False
        times = [ratio.scaled(nominal) for ratio, nominal in zip(ratios, champion.nominal_us, strict=True)]
        return score(times, self.board.ranking_by).low < champion.score.value

    def _play_duel(self, champion: Champion) -> None:
        """Play the duel.  A champion that fails in it may try once more, and then loses."""
        began, opponent = time.monotonic(), champion.submission
        theirs = self.context.entry("champion", opponent)
        failure = self._duel_once(theirs, champion)
        if failure and self._may_try_again(time.monotonic() - began):
            self.context.await_idle_cores()
            # With a cache of its own: the first one may be incomplete.
            failure = self._duel_once(replace(theirs, cache=secrets.token_hex(8)), champion)
        if failure:
            self.forfeit = Forfeit(
                opponent=opponent.login,
                opponent_digest=opponent.digest,
                verdict=failure.verdict,
                message=failure.message[:MAX_MESSAGE],
            )
            why = f"{opponent.login}'s file failed in it ({failure.verdict}): {failure.message}"
            self.message = f"It wins the duel, because {why}"[:MAX_MESSAGE]

    def _duel_once(self, theirs: PlayerFiles, champion: Champion) -> Foul | None:
        """Play the duel; return the champion's foul, if it failed."""
        start = time.monotonic()
        try:
            require_build(self.context, theirs)
            opponent, earlier = champion.submission, champion.earlier
            self.duel = play_duel(self.runs, self.challenger, theirs, opponent, earlier=earlier)
        except SideFoul as fault:
            if fault.side == theirs.name:
                return fault.foul
            # It passed every benchmark and failed now, so it is not correct.
            seconds = time.monotonic() - start
            self.results.append(CaseResult.of(CaseKind.BENCHMARK, fault.case.params, self._own(fault), seconds))
        return None

    def void_duel(self, error: PullRankError) -> None:
        """Make the duel void, not the judging: otherwise the champion could keep others off the board."""
        assert self.champion
        if self.duel or self.forfeit or not self.message:  # else it is void already
            self.message = f"The duel with {self.champion.submission.login} is void: {error}"[:MAX_MESSAGE]
        self.duel = self.forfeit = None

    def _may_try_again(self, seconds: float) -> bool:
        """Whether there is time for another duel, and the sandbox can still start players."""
        return seconds < RETRY_S and not self.context.sandbox.is_spent


class Match:
    """Any two files: both are built and tested and, if both are accepted, dueled; A is the challenger."""

    def __init__(self, context: Context, a: Submission, b: Submission) -> None:
        self.context = context
        self.files = {"A": a, "B": b}
        self.entries = {side: context.entry(side, file) for side, file in self.files.items()}
        self.runs = Runs(context, pace=self.entries["B"])
        self.results: dict[str, list[CaseResult]] = {}
        self.duel: Duel | None = None

    def play(self, looks: Sequence[int]) -> None:
        self.results = {side: self._examine(side) for side in self.files}
        if all(one.verdict is Verdict.ACCEPTED for results in self.results.values() for one in results):
            self._play_duel(looks)

    def _examine(self, side: str) -> list[CaseResult]:
        if fault := self.files[side].fault:
            return [CaseResult.of(CaseKind.BUILD, {}, Foul(Verdict.COMPILE_ERROR, fault))]
        cases = [*self.context.board.tests, *self.context.board.benchmarks]
        return examine(self.context, self.entries[side], cases, label=f"{side}: ")

    def _play_duel(self, looks: Sequence[int]) -> None:
        start = time.monotonic()
        try:
            self.duel = play_duel(self.runs, self.entries["A"], self.entries["B"], self.files["B"], looks)
        except SideFoul as fault:
            if fault.side not in self.results:
                raise self.context.our_fault(fault) from None
            seconds = time.monotonic() - start
            self.results[fault.side].append(CaseResult.of(CaseKind.BENCHMARK, fault.case.params, fault.foul, seconds))


def _anchor_of(board: Board) -> Submission:
    if board.task.anchor is None:
        raise TaskError(f"{board.task.name} has no anchor; add an accepted example to examples/accepted/")
    return read_submission(board.task.anchor, login="anchor")
