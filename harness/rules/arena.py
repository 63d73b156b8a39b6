"""What all sides of a judging share: one board, the walls, the reference, the seeds, and who is to blame.

build      a file is imported and called once per shape; the caches that this fills are sealed
tests      all of them, so that the participant sees every failure
runs_of    a benchmark's runs: a fresh player each, warm-ups and samples, every output checked

Of tests a verdict comes out.  In benchmarks several sides play by turns: what goes wrong there is a `SideFoul`,
which says whose it is; `game` and `duel` say what follows from it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import secrets
import time
from collections.abc import Iterator, Mapping
from typing import Any

from harness.gpu.device import CPU, Device
from harness.gpu.gpu_watch import GpuWatch
from harness.gpu.vendors import Profiler, ProfilerOutput, last_words
from harness.records.counters import Counters
from harness.records.errors import JudgeError
from harness.records.fields import MAX_MESSAGE, CaseKind, Mode
from harness.records.judgement import CaseResult, Digests
from harness.records.profile import Profile
from harness.records.progress import OnProgress, Progress
from harness.records.replay import Replay
from harness.records.times import Timing
from harness.records.verdict import Foul, Verdict
from harness.referee import sampling
from harness.referee.referee import Deadline, Referee
from harness.referee.reference import Reference
from harness.referee.sampling import NULL_KERNEL, SAMPLES, WARMUPS, Windows
from harness.referee.self_timing import Outside, find_lie
from harness.sandbox.player_handle import PlayerHandle, how_it_ended
from harness.sandbox.program import follow
from harness.sandbox.sandbox import PlayerFiles, Sandbox
from harness.task.compile import Recipe
from harness.task.submission import Submission
from harness.task.task import Board, Case

IMPORT_S = 10.0
"""How long a fresh player may import in a benchmark, when all caches are filled.  It counts toward no phase: else a
slow import would spend the time that both sides share, and a first place with one could not be dueled."""


PROFILER_S = 30.0
"""How long the profiler may take to start and to sum up, beside the call that it watches."""


WATCH_S = 120.0
"""How long a vendor's profiler may take to start, to play a call's kernels again and again, or to write its report."""


class SideFoul(Exception):
    """A foul in a benchmark, and whose it is; `side` is the name of an entry."""

    def __init__(self, side: str, case: Case, foul: Foul) -> None:
        super().__init__(side, foul.message)
        self.side = side
        self.case = case
        self.foul = foul


class OutOfTime(JudgeError):
    """A phase took longer than it may, and not because of one side."""


class Phase:
    """A part of a judging that has so many seconds, and how much of them each side's windows took."""

    def __init__(self, name: str, deadline: Deadline, import_s: float = IMPORT_S) -> None:
        self.name = name
        self.deadline = deadline
        self.import_s = import_s
        self._running_s: dict[str, float] = {}

    @contextlib.contextmanager
    def watch(self, side: str, case: Case, table: Referee) -> Iterator[None]:
        """Play one side's run.  Raises SideFoul, or OutOfTime."""
        caught: Foul | None = None
        try:
            yield
        except Foul as foul:
            caught = foul
        self._running_s[side] = self._running_s.get(side, 0.0) + table.running_s
        if caught:
            raise self._blame(side, case, caught)

    def _blame(self, side: str, case: Case, foul: Foul) -> Exception:
        """A phase that ran out of time is a side's fault only if most of the time went into its windows."""
        if foul.verdict is not Verdict.TIME_LIMIT_EXCEEDED or not self.deadline.is_over:
            return SideFoul(side, case, foul)
        phase_s = self.deadline.phase_s
        for name, running_s in self._running_s.items():
            if running_s > phase_s / 2:
                message = f"Its calls took most of the {phase_s:g} s for {self.name}."
                return SideFoul(name, case, Foul(foul.verdict, message))
        return OutOfTime(
            f"{self.name} did not fit into {phase_s:g} s on this machine, and not because of a submission: allow more "
            "in task.yml, or judge on a quieter machine"
        )


class Arena:
    """Where sides play on one board."""

    def __init__(
        self,
        board: Board,
        mode: Mode,
        sandbox: Sandbox,
        on_progress: OnProgress,
        recipe: Recipe | None = None,
        device: Device = CPU,
        replay: Replay | None = None,
        profiler: Profiler | None = None,
    ) -> None:
        self.board = board
        self.device = device
        self.profiler = profiler
        self.mode = mode
        self.sandbox = sandbox
        self.on_progress = on_progress
        self.recipe = recipe
        self.replay = replay
        self.reference = Reference(board, device.name)
        self.gpu = GpuWatch(device.side.find_meter())
        self._idle: dict[str, list[Outside]] = {}
        """By the name of a case: what the referee's clock says of a player that does nothing."""
        self._varies: dict[str, bool] = {}
        """By the name of a case that the reference was tried with: whether seeds make a difference."""
        self.logs: dict[str, str] = {}
        """By the name of an entry: the end of what its last player printed."""
        self.digests: dict[tuple[str, str], Digests] = {}
        """By the names of an entry and of a benchmark: of the first call of its first run."""
        idle = Submission(login="idle", source=NULL_KERNEL.encode())
        self.idler = self.entry("idle player", idle)

    def entry(self, name: str, submission: Submission) -> PlayerFiles:
        shared = {file: content.decode() for file, content in self.board.task.shared_files.items()}
        recipe = self.recipe if submission.is_compiled else None
        return PlayerFiles(name=name, files={**shared, submission.name: submission.text}, recipe=recipe)

    def seed(self) -> int:
        # 31 bits: every library's generator takes as many.
        return secrets.randbits(31)

    def report(self, step: str, done: int, total: int, seconds_left: float | None = None) -> None:
        self.on_progress(Progress(step=step, done=done, total=total, seconds_left=seconds_left))

    @contextlib.contextmanager
    def _seat(self, entry: PlayerFiles, *, building: bool = False) -> Iterator[PlayerHandle]:
        """A fresh player; what it prints is kept.

        Raises:
            JudgeError: the device does not compute any more since then, whatever the player got.
        """
        foul: Foul | SideFoul | None = None
        try:
            with contextlib.ExitStack() as once_closed, self.sandbox.seat(entry, building=building) as player:
                once_closed.callback(self._keep_log, entry, player)
                yield player
        except (Foul, SideFoul) as caught:
            foul = caught
        self._require_device()
        if foul:
            raise foul

    def _require_device(self) -> None:
        if trouble := self.device.side.find_trouble():
            raise JudgeError(f"a player has ended, and {trouble}")

    def _table(self, player: PlayerHandle) -> Referee:
        return Referee(player, self.reference, self.device)

    def _keep_log(self, entry: PlayerFiles, player: PlayerHandle) -> None:
        if player.log:
            self.logs[entry.name] = player.log[-MAX_MESSAGE:]

    # ------------------------------------------------------------------ build and tests

    def examine(self, entry: PlayerFiles, cases: list[Case], *, label: str = "") -> list[CaseResult]:
        """Build an entry for these cases and, if it can be built, play all tests; `label` is for those who watch."""
        self.report(f"{label}build", 0, 1)
        self._probe(cases)
        build = self.build(entry, cases)
        if build.verdict is not Verdict.ACCEPTED:
            return [build]
        return [build, *self._play_tests(entry, label)]

    def _probe(self, cases: list[Case]) -> None:
        """Try each case with the reference alone, once for all who play it here.  Raises TaskError."""
        for case in cases:
            if case.name not in self._varies:
                self._varies[case.name] = self.reference.probe(case.params)
        self.reference.require_variety((case, self._varies[case.name]) for case in cases)

    def build(self, entry: PlayerFiles, cases: list[Case]) -> CaseResult:
        """Import a submission and call it once per shape on throw-away inputs; its caches are sealed after.

        What is compiled is sealed before anything of it runs: what is played is what its source says.
        """
        limits = self.board.limits
        start = time.monotonic()
        if entry.recipe and (foul := self._compile(entry, entry.recipe)):
            return result(CaseKind.BUILD, {}, foul, start)
        # A first call may compile, and may take a good part of the build's time for it.
        call_s = max(limits.case_timeout_s, limits.compile_timeout_s / 4)
        deadline = Deadline.of(limits.compile_timeout_s, call_s)
        foul = None
        with self._seat(entry, building=not entry.recipe) as player:
            try:
                table = self._table(player)
                table.load(limits.compile_timeout_s)
                # What goes wrong in a call is found again, and reported, by the case itself.
                with contextlib.suppress(Foul):
                    for case in cases:
                        table.call(case.params, self.seed(), deadline, checked=False)
            except Foul as error:
                foul = error
        return result(CaseKind.BUILD, {}, foul, start)

    def _compile(self, entry: PlayerFiles, recipe: Recipe) -> Foul | None:
        with self._seat(entry, building=True) as player:
            try:
                self._table(player).compile(recipe, self.board.limits.compile_timeout_s)
            except Foul as foul:
                return foul
        return None

    def require_build(self, entry: PlayerFiles) -> None:
        """Build an entry for the benchmarks.  Raises SideFoul."""
        benchmarks = list(self.board.benchmarks)
        build = self.build(entry, benchmarks)
        if build.verdict is not Verdict.ACCEPTED:
            raise SideFoul(entry.name, benchmarks[0], Foul(build.verdict, build.message))

    def _play_tests(self, entry: PlayerFiles, label: str) -> list[CaseResult]:
        limits = self.board.limits
        deadline = Deadline.of(limits.test_timeout_s, limits.case_timeout_s)
        results: list[CaseResult] = []
        waiting = list(self.board.tests)
        while waiting and not deadline.is_over:
            with self._seat(entry) as player:
                results += self._play_tests_with(player, waiting, deadline, label)
        for case in waiting:
            message = f"Not played: the tests together took over {limits.test_timeout_s:g} s."
            foul = Foul(Verdict.TIME_LIMIT_EXCEEDED, message)
            results.append(result(CaseKind.TEST, case.params, foul, time.monotonic()))
        return results

    def _play_tests_with(
        self, player: PlayerHandle, waiting: list[Case], deadline: Deadline, label: str
    ) -> Iterator[CaseResult]:
        """Play tests until all are done or the player is of no more use."""
        table = self._table(player)
        is_loaded = False
        while waiting and not deadline.is_over:
            case = waiting.pop(0)
            self.report(f"{label}test", len(self.board.tests) - len(waiting) - 1, len(self.board.tests))
            seed = self._test_seed(case, len(self.board.tests) - len(waiting) - 1)
            start, foul = time.monotonic(), None
            try:
                if not is_loaded:
                    table.load(self.board.limits.compile_timeout_s)
                    is_loaded = True
                table.call(case.params, seed, deadline, digested=True)
            except Foul as error:
                foul = error
            yield result(CaseKind.TEST, case.params, foul, start, seed, digests=table.digests)
            if foul and foul.verdict is not Verdict.WRONG_ANSWER:
                break

    def _test_seed(self, case: Case, index: int) -> int:
        """Trying is repeatable: the seeds that stand in task.yml.  Ranking is on seeds that nobody knows."""
        seed = self.replay.test_seed(index) if self.replay else case.public_seed if self.mode is Mode.TEST else None
        return self.seed() if seed is None else seed

    # ------------------------------------------------------------------ benchmarks

    def phase(self, name: str, seconds: float, patience: float = 1) -> Phase:
        """A phase of so many seconds; `patience` is how many times `IMPORT_S` an import may take in it."""
        limits = self.board.limits
        import_s = min(patience * IMPORT_S, limits.compile_timeout_s)
        return Phase(name, Deadline.of(seconds, limits.case_timeout_s), import_s)

    def calibrate(self, case: Case, phase: Phase) -> float:
        """What a window costs with this case's inputs when nothing is computed, in microseconds."""
        self.sandbox.keep_awake()
        return sampling.calibrate(self.runs_of(self.idler, case, phase))

    def runs_of(self, entry: PlayerFiles, case: Case, phase: Phase) -> sampling.Play:
        """How an entry plays one run of a case: a fresh player, warm-ups and samples, every output checked.

        What it returns raises SideFoul, or JudgeError: OutOfTime, or of a GPU that ranks nobody now.
        """

        def play(order: int) -> Windows:
            self.gpu.begin()
            with self._seat(entry) as player:
                table = self._table(player)
                with phase.watch(entry.name, case, table):
                    with phase.deadline.paused():
                        table.load(phase.import_s, "of a benchmark; what takes long is cached by the build")
                    # Drawn only now that the submission is loaded.
                    known = self.replay.run_seeds(entry.name, case.params, order) if self.replay else None
                    seeds = known or tuple(self.seed() for _ in range(WARMUPS + SAMPLES))
                    is_real = entry is not self.idler
                    is_first = is_real and order == 0
                    windows = table.calls(
                        case.params, seeds, phase.deadline, checked=is_real, digested=is_first,
                        after_windows=self.gpu.look,
                    )  # fmt: skip
                    if table.digests:
                        self.digests[entry.name, case.name] = table.digests
            state = self.gpu.end()
            if entry is self.idler:
                self._idle.setdefault(case.name, []).extend(table.outside[WARMUPS:])
            lie = "" if entry is self.idler else self._find_lie(case, table.outside, phase)
            # A benchmark that ranks nobody decides nothing, and says it.  But who is held up by a stranger's work on
            # the GPU looks like somebody who works there in secret.
            if state and state.hindrance and (lie or self.mode is not Mode.BENCHMARK):
                raise JudgeError(f"the GPU ranks nobody now: {state.hindrance}")
            if lie:
                raise SideFoul(entry.name, case, Foul(Verdict.SECURITY_VIOLATION, lie))
            return Windows(windows_us=windows, seeds=seeds, outside=tuple(table.outside), gpu=state)

        return play

    def profile(self, entry: PlayerFiles, case: Case, phase: Phase) -> Profile:
        """One watched call of a fresh player, after its warm-ups.  Raises SideFoul, or OutOfTime."""
        with self._seat(entry) as player:
            table = self._table(player)
            with phase.watch(entry.name, case, table):
                with phase.deadline.paused():
                    table.load(phase.import_s, "of a profile; what takes long is cached by the build")
                table.calls(case.params, tuple(self.seed() for _ in range(WARMUPS)), phase.deadline)
                watched = dataclasses.replace(phase.deadline, call_s=phase.deadline.call_s + PROFILER_S)
                return table.profile(case.params, self.seed(), watched)

    def watch(self, entry: PlayerFiles, case: Case, phase: Phase, profiler: Profiler) -> tuple[Counters, bytes]:
        """One call of a fresh player under the vendor's profiler: its counters, and its report.

        Whatever goes wrong in there is in the counters: the case itself was played before.
        """
        if not profiler.path:
            return profiler.missing(), b""
        program = self.sandbox.watcher(entry, profiler.order)
        parcel, why = ProfilerOutput(), "the call launches none"
        with self.sandbox.seat(entry, program=program) as player:
            try:
                if status := self._watch(player, case, dataclasses.replace(phase.deadline, call_s=WATCH_S), parcel):
                    why = how_it_ended(status, player.log)
            except (Foul, JudgeError) as error:  # below a profiler nothing is ours, not even a GPU that does not open
                why = str(error)
        self._require_device()
        table, report = parcel.open()
        why = why.rstrip(".") + last_words(player.log)
        return profiler.counters_of(table, len(report), player.log, why), report

    def _watch(self, player: PlayerHandle, case: Case, deadline: Deadline, parcel: ProfilerOutput) -> int:
        """Play a call with the player that a profiler starts, and take what that leaves; the profiler's wait status.

        Raises:
            Foul: it, or the player, did not get so far.
        """
        player.send({"do": "run"})
        player.follow(*deadline.next_call())
        table = self._table(player)
        table.load(self.board.limits.compile_timeout_s)
        table.calls(case.params, tuple(self.seed() for _ in range(WARMUPS)), deadline)
        table.watch(case.params, self.seed(), deadline)
        player.hang_up()
        player.resume()
        return follow(player, parcel.feed, *deadline.next_call())

    def _find_lie(self, case: Case, calls: list[Outside], phase: Phase) -> str:
        """What a run's own clock cannot have shown.  Before anybody is blamed, an idle player is tried once more."""
        samples = calls[WARMUPS:]
        if samples and find_lie(samples, self._idle[case.name]):
            self.runs_of(self.idler, case, phase)(0)
            return find_lie(samples, self._idle[case.name])
        return ""

    def our_fault(self, fault: SideFoul) -> JudgeError:
        """What a foul of the anchor or of the idle player is: they are ours."""
        return JudgeError(f"{self.board.task.name}: {fault.side} got {fault.foul.verdict}: {fault.foul.message}")


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
    """What a case came to that began at `start` (of `time.monotonic()`)."""
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
