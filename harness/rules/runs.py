"""Play one run of a benchmark, or one call under a profiler, each with a fresh player."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from harness.gpu.vendor_profilers import Profiler, ProfilerOutput, last_words
from harness.records.counters import Counters
from harness.records.errors import JudgeError
from harness.records.fields import Mode
from harness.records.profile import Profile
from harness.records.stats import median
from harness.records.verdict import Foul, Verdict
from harness.referee import sampling
from harness.referee.orders import Deadline
from harness.referee.sampling import NULL_KERNEL, SEALED_NULL_KERNEL, WARMUPS, Windows, warmups_and_samples
from harness.referee.self_timing import Outside, charged_us, find_lie
from harness.rules.context import IDLER, OWN_PLAYERS, Context
from harness.rules.phase import Phase, SideFoul
from harness.sandbox.player_handle import PlayerHandle, how_it_ended
from harness.sandbox.program import follow
from harness.sandbox.sandbox import PlayerFiles
from harness.task.submission import Submission
from harness.task.task import Case

_OWN_PATIENCE = 6
"""How many times as long an import of the judge's own players may take."""
_OUT_OF_ORDER = -1
"""The position of a run that is part of no result."""
PROFILER_S = 30.0
"""Extra seconds for the profiler to start and to summarise, on top of the profiled call."""
COUNTERS_S = 120.0
"""Seconds for each step of a vendor's profiler: start, replay the call's kernels, write its report."""


class Runs:
    """Plays the runs of all sides of one game."""

    def __init__(self, context: Context, pace: PlayerFiles | None = None) -> None:
        """`pace` is the player whose time decides how many calls a window holds, for all sides alike; None: one."""
        self.context = context
        self._pace = pace
        self._calls_per_window: dict[str, int] = {}
        """By name of the case."""
        self._loop_us: dict[str, float] = {}
        kernel = SEALED_NULL_KERNEL if context.device.is_sealed else NULL_KERNEL
        self.idler = context.entry(IDLER, Submission(login="idle", source=kernel.encode()))
        self._idle: dict[str, list[Outside]] = {}
        """The referee's measurements of the idle player, by name of the case."""
        self.other_work: list[float] = []
        """The share of a core that other work took, for each run in order of play."""

    def overhead(self, case: Case, phase: Phase) -> sampling.Overhead:
        """The overhead of a call with this case's inputs: measured now on a GPU, and for each pair of runs on a CPU."""
        if not self.context.device.opens_a_device:
            self.context.sandbox.keep_awake()
            return partial(sampling.player_overhead, self.of(self.idler, case, phase))
        overhead_us = self.early_overhead(case, phase)
        return lambda: overhead_us

    def early_overhead(self, case: Case, phase: Phase) -> float:
        """Measure the overhead of a call with this case's inputs now, in microseconds."""
        self.context.sandbox.keep_awake()
        idle = self.of(self.idler, case, phase)
        if not self.context.device.is_sealed:
            return sampling.early_overhead(idle)
        if case.name not in self._calls_per_window:
            self._calls_per_window[case.name] = self._find_calls_per_window(case, phase)
        if self._calls_per_window[case.name] > 1:
            overhead_us, runs = sampling.central_overhead(self.of(self.idler, case, phase, loops=True))
            if all(run.is_queued for run in runs):
                return overhead_us
            # Kernels may wait for Python's launches within the window, while those of other players do not.
            single_us = sampling.central_overhead(idle)[0]
            self._loop_us[case.name] = max(0.0, overhead_us - single_us)
            return single_us
        return sampling.central_overhead(idle)[0]

    def loop_us(self, case: Case) -> float:
        """The most that our own loop in the player takes for each call of a window: a player could avoid it."""
        return self._loop_us.get(case.name, 0.0)

    def _find_calls_per_window(self, case: Case, phase: Phase) -> int:
        """How many calls a window holds: as in the replayed judgement, or enough to make the overhead a small share."""
        if not self._pace or (most := self.context.calls_that_fit(case)) == 1:
            return 1
        if self.context.replay and (known := self.context.replay.calls_per_sample(case.params)):
            return min(known, most)
        idle, played = (self.of(one, case, phase)(_OUT_OF_ORDER) for one in (self.idler, self._pace))
        return sampling.calls_per_window(played, median(idle.samples_us), most)

    def of(self, entry: PlayerFiles, case: Case, phase: Phase, *, loops: bool = False) -> sampling.Play:
        """A function that plays one run of a case: fresh player, warm-ups and samples, every output checked.

        An idle player makes one call in each window; if it `loops`, as many as others.

        The function raises SideFoul, OutOfTime, or JudgeError if the judge failed or cannot rank on this machine now.
        """

        quiet = self.context.quiet

        def play(order: int) -> Windows:
            while True:
                with phase.deadline.paused():
                    self.context.await_idle_cores()
                undo = phase.checkpoint()
                windows, other_share = self._play(entry, case, phase, order, loops=loops)
                if not (quiet and quiet.must_repeat(other_share, entry.name, case.name, stalls=windows.stalls)):
                    break
                undo()
            self.other_work.append(other_share)
            return self._settle(entry, case, phase, windows, other_share)

        return play

    def _play(self, entry: PlayerFiles, case: Case, phase: Phase, order: int, *, loops: bool) -> tuple[Windows, float]:
        """Play one run once; return also the share of a core that other work took."""
        replay = self.context.replay
        is_real = entry is not self.idler
        other_work = self.context.sandbox.other_work()
        self.context.gpu.begin()
        with self.context.start_player(entry) as player:
            referee = self.context.referee(player, first_call_s=self.context.first_call_s(entry))
            with phase.attribute_to(entry.name, case, referee.orders):
                # A submission can evict libraries from the page cache; this must not make the anchor's import time out.
                is_own = entry.name in OWN_PLAYERS
                patience = _OWN_PATIENCE if is_own else 1
                with phase.deadline.paused() if is_own else phase.importing(entry.name, player):
                    referee.load(patience * phase.import_s, "in a benchmark; cache slow work during the build")
                other_work.begin()
                slept_s = player.slept_s

                def look() -> None:
                    self.context.gpu.look()
                    other_work.look(referee.orders.running_s, player.slept_s - slept_s)

                # Drawn only after the submission is loaded, so that it cannot see them during its import.
                known = replay.run_seeds(entry.name, case.params, order) if replay else ()
                calls = self._calls_per_window.get(case.name, 1)
                wanted = sum(warmups_and_samples(calls))
                # The replayed run may have had fewer windows, or more.
                seeds = (*known, *self._draw_seeds(wanted, is_idle=not is_real))[:wanted]
                is_first = is_real and order == 0
                windows = referee.calls(
                    case.params,
                    seeds,
                    phase.deadline,
                    checked=is_real,
                    digested=is_first,
                    per_window=calls,
                    is_idle=not (is_real or loops),
                    after_windows=look,
                )
                is_queued = referee.is_queued
                if referee.digests:
                    self.context.digests[entry.name, case.name] = referee.digests
        phase.charge(entry.name, player.extra_s)
        state = self.context.gpu.end()
        outside = tuple(referee.outside)
        played = Windows(
            windows_us=windows,
            seeds=seeds,
            outside=outside,
            gpu=state,
            is_queued=is_queued,
            calls_per_sample=calls,
            work_s=referee.work_s / calls,
        )
        orders = referee.orders
        taken_s = orders.running_s - orders.starved_s + orders.gaps_s + player.extra_s
        phase.add_unscored(entry.name, max(0.0, taken_s - calls * sum(played.samples_us) / 1e6))
        return played, other_work.share

    def _draw_seeds(self, windows: int, *, is_idle: bool) -> tuple[int, ...]:
        """A seed for each window; the same for all windows of an idle player, whose time does not depend on inputs.

        On a GPU it does: a scalar that differs from the last one comes later.
        """
        if is_idle and not self.context.device.opens_a_device:
            return (self.context.seed(),) * windows
        return tuple(self.context.seed() for _ in range(windows))

    def _settle(self, entry: PlayerFiles, case: Case, phase: Phase, played: Windows, other_share: float) -> Windows:
        """Compare the player's own times, if it reports them, with the referee's.  Raises SideFoul or JudgeError."""
        is_real = entry is not self.idler
        lie = self._find_lie(case, played.outside, phase, other_share) if is_real else ""
        # In mode `benchmark`, a hindered GPU is only noted.  But a player slowed down by other processes on the
        # GPU looks like one that works there in secret, so with a lie it is always an error.
        if played.gpu and played.gpu.hindrance and (lie or self.context.mode is not Mode.BENCHMARK):
            raise JudgeError(f"the GPU cannot be used for ranking now: {played.gpu.hindrance}")
        if lie:
            raise SideFoul(entry.name, case, Foul(Verdict.SECURITY_VIOLATION, lie))
        if not is_real:
            self._idle.setdefault(case.name, []).extend(played.outside[WARMUPS:])
        if not (is_real and played.outside):
            return played
        return replace(played, windows_us=charged_us(played.outside, self._idle[case.name]))

    def profile(self, entry: PlayerFiles, case: Case, phase: Phase) -> Profile:
        """Profile one call of a fresh player, after its warm-ups.  Raises SideFoul, or OutOfTime."""
        with self.context.start_player(entry) as player:
            referee = self.context.referee(player, first_call_s=self.context.first_call_s(entry))
            with phase.attribute_to(entry.name, case, referee.orders):
                with phase.deadline.paused():
                    referee.load(phase.import_s, "in a profile; cache slow work during the build")
                referee.calls(case.params, tuple(self.context.seed() for _ in range(WARMUPS)), phase.deadline)
                cpu = None
                if not self.context.device.opens_a_device:
                    cpu = referee.measure_cpu(case.params, self.context.seed(), phase.deadline)
                longer = replace(phase.deadline, call_s=phase.deadline.call_s + PROFILER_S)
                return referee.profile(case.params, self.context.seed(), longer).model_copy(update={"cpu": cpu})

    def count(self, entry: PlayerFiles, case: Case, phase: Phase, profiler: Profiler) -> tuple[Counters, bytes]:
        """Run one call of a fresh player under the vendor's profiler; return its counters and its report.

        Failures are reported in the counters only, because the case itself has already been accepted.
        """
        if not profiler.path:
            return profiler.missing(), b""
        program = self.context.sandbox.profiled_player(entry, profiler.order)
        parcel, why = ProfilerOutput(), "the call launches no kernels"
        try:
            with self.context.sandbox.start_player(entry, program=program) as player:
                try:
                    if status := self._count(player, case, replace(phase.deadline, call_s=COUNTERS_S), parcel):
                        why = how_it_ended(status, player.log)
                except (Foul, JudgeError) as error:  # under a profiler, even an unusable GPU is not our failure
                    why = str(error)
        except Foul as endless:
            raise SideFoul(entry.name, case, endless) from None
        finally:
            self.context.dismiss()
        self.context.require_device()
        table, report = parcel.open()
        why = why.rstrip(".") + last_words(player.log)
        return profiler.counters_of(table, len(report), player.log, why), report

    def _count(self, player: PlayerHandle, case: Case, deadline: Deadline, parcel: ProfilerOutput) -> int:
        """Play a call with the player started by a profiler, and collect the profiler's output; return its wait status.

        Raises:
            Foul: the profiler or the player failed before the end.
        """
        player.send({"do": "run"})
        player.follow(*deadline.next_call())
        referee = self.context.referee(player)
        referee.load(self.context.board.limits.compile_timeout_s)
        referee.calls(case.params, tuple(self.context.seed() for _ in range(WARMUPS)), deadline)
        referee.count(case.params, self.context.seed(), deadline)
        player.hang_up()
        player.resume()
        return follow(player, parcel.feed, *deadline.next_call())

    def _find_lie(self, case: Case, calls: Sequence[Outside], phase: Phase, other_share: float) -> str:
        """Why a run's own times cannot be true; "" if they can.  Measures the idle player again before blaming."""
        samples = calls[WARMUPS:]
        if samples and find_lie(samples, self._idle[case.name], other_share):
            self.of(self.idler, case, phase)(0)
            return find_lie(samples, self._idle[case.name], other_share)
        return ""
