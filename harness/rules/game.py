"""The rules of the game: build, tests, benchmarks, duel.

build        import the submission, and call it once per shape; CE if the import fails
tests        all of them, so that the participant sees every failure
benchmarks   if all tests are accepted: in random order, alternating with the anchor; in mode `profile` instead one
             profiled call each, and on a GPU another one under the vendor's profiler
duel         if it could take first place: against the champion

`Game` judges one submission.  `Match` plays any two files against each other.
"""

from __future__ import annotations

import contextlib
import math
import random
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.gpu.vendors import Profiler
from harness.records.counters import Counters
from harness.records.errors import TaskError
from harness.records.fields import MAX_MESSAGE, CaseKind, Mode
from harness.records.judgement import CaseResult, Digests
from harness.records.profile import Profile
from harness.records.stats import LONGEST_EXTENDED_DUEL_S, MIN_PAIRS, score
from harness.records.times import Duel, Forfeit, Timing
from harness.records.verdict import Foul, Verdict
from harness.referee import sampling
from harness.referee.orders import Deadline
from harness.rules.context import ANCHOR, Context
from harness.rules.duel import play_duel
from harness.rules.phase import OutOfTime, Phase, SideFoul
from harness.rules.runs import Runs
from harness.sandbox.player_handle import PlayerHandle
from harness.sandbox.sandbox import PlayerFiles
from harness.sandbox.watched_memory import Meminfo
from harness.task.compile import Recipe
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
        """
        self.context = context
        self.board = context.board
        self.mode = mode or context.mode
        self.pairs = pairs
        self.until_failure = until_failure
        self.reports = reports
        self.profiled = profiled or context.board.benchmarks
        self.submission = submission
        self.champion = champion
        self.challenger = context.entry(name, submission)
        self.anchor = context.entry(ANCHOR, _anchor_of(context.board))
        self.runs = Runs(context, pace=self.anchor)
        self.results: list[CaseResult] = []
        self.duel: Duel | None = None
        self.forfeit: Forfeit | None = None
        self.message = ""

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
            self._play_duel(self.champion)

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
                self.runs.calibrate(case, phase),
                min(STEADY_S[self.mode], max(0.0, phase.deadline.phase_ends - time.monotonic())),
                self.pairs,
                loop_us=self.runs.loop_us(case),
            )
        except SideFoul as fault:
            foul = self._own(fault)
        digests = self.context.digests.get((self.challenger.name, case.name))
        return result(CaseKind.BENCHMARK, case.params, foul, start, timing=timing, digests=digests)

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
            self.results.append(result(CaseKind.PROFILE, case.params, foul, start, profile=profile))

    def _count(self, profiler: Profiler) -> None:
        """Run a call of each benchmark under the vendor's profiler, and add its counters to the profiles."""
        phase = self.context.phase("the counters", self.board.limits.benchmark_timeout_s)
        first = len(self.results) - len(self.profiled)
        for done, case in enumerate(self.profiled):
            self.context.report("counters", done, len(self.profiled))
            start = time.monotonic()
            try:
                counters, report = self.runs.watch(self.challenger, case, phase, profiler)
            except SideFoul as fault:
                self.results.append(result(CaseKind.PROFILE, case.params, self._own(fault), start))
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
        failure = self._duel_once(theirs, opponent)
        if failure and self._may_try_again(time.monotonic() - began):
            if self.context.quiet:
                self.context.quiet.wait()
            # With a cache of its own: the first one may be incomplete.
            failure = self._duel_once(replace(theirs, cache=secrets.token_hex(8)), opponent)
        if failure and self._has_memory(failure):
            self.forfeit = Forfeit(
                opponent=opponent.login,
                opponent_digest=opponent.digest,
                verdict=failure.verdict,
                message=failure.message[:MAX_MESSAGE],
            )
            why = f"{opponent.login}'s file failed in it ({failure.verdict}): {failure.message}"
            self.message = f"It wins the duel, because {why}"[:MAX_MESSAGE]
        elif failure:
            why = f"{opponent.login}'s file had too little memory on this machine: {failure.message}"
            self.message = f"The duel is void, because {why}"[:MAX_MESSAGE]

    def _duel_once(self, theirs: PlayerFiles, opponent: Submission) -> Foul | None:
        """Play the duel; return the champion's foul, if it failed."""
        start = time.monotonic()
        try:
            require_build(self.context, theirs)
            self.duel = play_duel(self.runs, self.challenger, theirs, opponent)
        except OutOfTime as error:
            self.message = f"The duel with {opponent.login} is void: {error}"[:MAX_MESSAGE]
        except SideFoul as fault:
            if fault.side == theirs.name:
                return fault.foul
            # It passed every benchmark and failed now, so it is not correct.
            self.results.append(result(CaseKind.BENCHMARK, fault.case.params, self._own(fault), start))
        return None

    def _may_try_again(self, seconds: float) -> bool:
        """Whether there is time for another duel, and the sandbox can still start players."""
        return seconds < LONGEST_EXTENDED_DUEL_S / 3 and not self.context.sandbox.is_spent

    def _has_memory(self, foul: Foul) -> bool:
        """Whether a foul is the file's own: a machine whose memory others use may not have had as much as allowed."""
        if foul.verdict is not Verdict.MEMORY_LIMIT_EXCEEDED:
            return True
        return Meminfo.read().available >= self.context.sandbox.memory_bytes


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
            return [result(CaseKind.BUILD, {}, Foul(Verdict.COMPILE_ERROR, fault), time.monotonic())]
        cases = [*self.context.board.tests, *self.context.board.benchmarks]
        return examine(self.context, self.entries[side], cases, label=f"{side}: ")

    def _play_duel(self, looks: Sequence[int]) -> None:
        start = time.monotonic()
        try:
            self.duel = play_duel(self.runs, self.entries["A"], self.entries["B"], self.files["B"], looks)
        except SideFoul as fault:
            if fault.side not in self.results:
                raise self.context.our_fault(fault) from None
            self.results[fault.side].append(result(CaseKind.BENCHMARK, fault.case.params, fault.foul, start))


# ---------------------------------------------------------------------- build and tests


def examine(
    context: Context, entry: PlayerFiles, cases: list[Case], *, label: str = "", until_failure: bool = False
) -> list[CaseResult]:
    """Build an entry for these cases and, if that succeeds, play all tests, or those until the first failure.

    `label` prefixes progress events.
    """
    context.report(f"{label}build", 0, 1)
    context.probe(cases)
    start = time.monotonic()
    try:
        built = build(context, entry, cases)
        if built.verdict is not Verdict.ACCEPTED:
            return [built]
        return [built, *_play_tests(context, entry, label, until_failure=until_failure)]
    except SideFoul as endless:  # the sandbox can start no other player
        return [result(CaseKind.BUILD, {}, endless.foul, start)]


def build(context: Context, entry: PlayerFiles, cases: list[Case]) -> CaseResult:
    """Import a submission and call it once per shape on throw-away inputs; then make its caches read-only.

    A compiled submission is sealed before any of its code runs, so that it cannot replace its own library.  If one uses
    torch.compile, fresh players also call it with each benchmark alone, as in a run: what is compiled depends on the
    shapes that came before.
    """
    limits = context.board.limits
    start = time.monotonic()
    if entry.recipe and (foul := _compile(context, entry, entry.recipe)):
        return result(CaseKind.BUILD, {}, foul, start)
    deadline = Deadline.of(limits.compile_timeout_s, limits.first_call_s)
    if entry.recipe:
        foul = _try_cases(context, entry, cases, deadline, building=False)
    else:
        foul = _try_cases(context, entry, cases, deadline, building=True)
        if not foul and context.sandbox.has_inductor_cache(entry):
            for case in cases:
                if case.kind is CaseKind.BENCHMARK and not deadline.is_over:
                    _try_cases(context, entry, [case], deadline, building=True)  # a foul happens again in its run
        context.sandbox.seal(entry)
    return result(CaseKind.BUILD, {}, foul, start)


def _try_cases(
    context: Context, entry: PlayerFiles, cases: Sequence[Case], deadline: Deadline, *, building: bool
) -> Foul | None:
    """Have a fresh player import the submission and call it once per case; return the foul of the import, if any."""
    with contextlib.ExitStack() as stack:
        with deadline.paused():  # the sandbox may only just start
            player = stack.enter_context(context.seat(entry, building=building))
        try:
            referee = context.referee(player)
            referee.load(min(context.board.limits.compile_timeout_s, math.ceil(deadline.left_s)))
            deadline.phase_ends += player.starved_s
            # A foul in a call will happen again, and be reported, when its case is played.
            with contextlib.suppress(Foul):
                for case in cases:
                    referee.call(case.params, context.seed(), deadline, checked=False)
        except Foul as error:
            return error
    return None


def _compile(context: Context, entry: PlayerFiles, recipe: Recipe) -> Foul | None:
    with context.seat(entry, building=True) as player:
        foul = None
        try:
            context.referee(player).compile(recipe, context.board.limits.compile_timeout_s)
        except Foul as error:
            foul = error
    context.sandbox.seal(entry)
    return foul


def require_build(context: Context, entry: PlayerFiles) -> None:
    """Build an entry for the benchmarks, unless an earlier game did.  Raises SideFoul."""
    if context.sandbox.is_sealed(entry):
        return
    benchmarks = list(context.board.benchmarks)
    built = build(context, entry, benchmarks)
    if built.verdict is not Verdict.ACCEPTED:
        raise SideFoul(entry.name, benchmarks[0], Foul(built.verdict, built.message))


def _play_tests(context: Context, entry: PlayerFiles, label: str, *, until_failure: bool) -> list[CaseResult]:
    limits = context.board.limits
    deadline = Deadline.of(limits.test_timeout_s, limits.case_timeout_s)
    results: list[CaseResult] = []
    waiting = list(context.board.tests)
    while waiting and not deadline.is_over:
        with context.seat(entry) as player:
            for played in _play_tests_with(context, entry, player, waiting, deadline, label):
                results.append(played)
                if until_failure and played.verdict is not Verdict.ACCEPTED:
                    return results
    for case in waiting:
        message = f"Not played: the tests together took more than {limits.test_timeout_s:g} s."
        foul = Foul(Verdict.TIME_LIMIT_EXCEEDED, message)
        results.append(result(CaseKind.TEST, case.params, foul, time.monotonic()))
    return results


def _play_tests_with(
    context: Context, entry: PlayerFiles, player: PlayerHandle, waiting: list[Case], deadline: Deadline, label: str
) -> Iterator[CaseResult]:
    """Play tests until all are done or the player can no longer be used."""
    referee = context.referee(player, first_call_s=context.first_call_s(entry))
    is_loaded = False
    while waiting and not deadline.is_over:
        case = waiting.pop(0)
        context.report(f"{label}test", len(context.board.tests) - len(waiting) - 1, len(context.board.tests))
        seed = _test_seed(context, case, len(context.board.tests) - len(waiting) - 1)
        start, foul = time.monotonic(), None
        try:
            if not is_loaded:
                referee.load(context.board.limits.compile_timeout_s)
                deadline.phase_ends += player.starved_s
                is_loaded = True
            referee.call(case.params, seed, deadline, digested=True)
        except Foul as error:
            foul = error
        yield result(CaseKind.TEST, case.params, foul, start, seed, digests=referee.digests)
        if foul and foul.verdict is not Verdict.WRONG_ANSWER:
            break


def _test_seed(context: Context, case: Case, index: int) -> int:
    """The seed of a test: from task.yml in mode `test`, so that it is repeatable; otherwise secret."""
    if context.replay:
        seed = context.replay.test_seed(index)
    else:
        seed = case.public_seed if context.mode is Mode.TEST else None
    return context.seed() if seed is None else seed


def _anchor_of(board: Board) -> Submission:
    if board.task.anchor is None:
        raise TaskError(f"{board.task.name} has no anchor; add an accepted example to examples/accepted/")
    return read_submission(board.task.anchor, login="anchor")


def result(
    kind: CaseKind,
    params: Mapping[str, Any],
    foul: Foul | None,
    start: float,
    seed: int | None = None,
    timing: Timing | None = None,
    profile: Profile | None = None,
    digests: Digests | None = None,
) -> CaseResult:
    """The result of a case that began at `start` (`time.monotonic()`); accepted if there is no foul."""
    return CaseResult(
        kind=kind,
        params=dict(params),
        verdict=foul.verdict if foul else Verdict.ACCEPTED,
        message=foul.message[:MAX_MESSAGE] if foul else "",
        seconds=time.monotonic() - start,
        seed=seed,
        timing=timing,
        profile=profile,
        digests=None if foul else digests,
    )
