"""State shared by all sides of a judging: board, sandbox, reference, seeds, device."""

from __future__ import annotations

import contextlib
import math
import secrets
from collections.abc import Iterator
from dataclasses import replace

from harness.gpu.device import CPU, Device
from harness.gpu.gpu_watch import GpuWatch
from harness.gpu.vendor_profilers import Profiler
from harness.processes.other_work import OtherWorkRule
from harness.records.errors import JudgeError, MemoryShortage
from harness.records.fields import MAX_MESSAGE, Mode
from harness.records.judgement import Digests
from harness.records.progress import OnProgress, Progress
from harness.records.replay import Replay
from harness.records.verdict import Foul
from harness.referee.orders import Deadline
from harness.referee.referee import Referee
from harness.referee.sealed import calls_that_fit
from harness.reference.reference import Reference
from harness.reference.values import flatten
from harness.rules.phase import Phase, SideFoul
from harness.rules.quiet import Quiet
from harness.sandbox.player_handle import PlayerHandle
from harness.sandbox.sandbox import PlayerFiles, Sandbox
from harness.task.compile import Recipe
from harness.task.submission import Submission
from harness.task.task import Board, Case

ANCHOR, IDLER = "anchor", "idle player"
OWN_PLAYERS = (ANCHOR, IDLER)
"""The names of the judge's own players."""


class Context:
    """One board, and everything needed to judge its players."""

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
        *,
        other_work: OtherWorkRule = OtherWorkRule.ALLOW,
    ) -> None:
        self.board = board
        self.device = device
        self.profiler = profiler
        self.mode = mode
        self.sandbox = sandbox
        self.on_progress = on_progress
        self._progress = Progress(step="build", done=0, total=1)
        self.recipe = recipe
        self.replay = replay
        self.reference = Reference(board, device.name)
        self.gpu = GpuWatch(device.referee_side.find_meter())
        self.quiet: Quiet | None = None
        if other_work is not OtherWorkRule.ALLOW:
            self.quiet = Quiet(sandbox.listen, OWN_PLAYERS, other_work)
        self._referee: Referee | None = None
        self._entries: dict[tuple[str, str], PlayerFiles] = {}
        self._varies: dict[str, bool] = {}
        """Whether inputs depend on the seed, by name of the case; for cases that the reference was tried with."""
        self.logs: dict[str, str] = {}
        """Last part of the output of an entry's last player, by name of the entry."""
        self._fouled: dict[str, PlayerHandle] = {}
        """The first player of each entry that ended with a foul; `logs` keeps its output."""
        self.unbuilt: dict[str, str] = {}
        """The case, by its name, whose first call did not end in the build of an entry."""
        self.digests: dict[tuple[str, str], Digests] = {}
        """Digests of the first call of an entry's first run of a benchmark, by their names."""

    def entry(self, name: str, submission: Submission) -> PlayerFiles:
        """The files of the player called `name`; the same object each time, so that they are built only once."""
        key = name, submission.digest
        if key not in self._entries:
            shared = {file: content.decode() for file, content in self.board.task.shared_files.items()}
            recipe = self.recipe if submission.is_compiled else None
            files = {**shared, submission.name: submission.text}
            self._entries[key] = PlayerFiles(name=name, files=files, recipe=recipe)
        return self._entries[key]

    def seed(self) -> int:
        # 31 bits, which every library's generator accepts.
        return secrets.randbits(31)

    def report(self, step: str, done: int, total: int, seconds_left: float | None = None) -> None:
        self._progress = Progress(step=step, done=done, total=total, seconds_left=seconds_left)
        self.on_progress(self._progress)

    def await_idle_cores(self) -> None:
        """Wait until the cores are idle, if this judging keeps other work out.  Raises JudgeError as `Quiet.wait`."""
        waiting = Progress(step="waiting for idle cores", done=0, total=1)
        if self.quiet and self.quiet.wait(lambda: self.on_progress(waiting)):
            self.on_progress(replace(self._progress, seconds_left=None))

    @contextlib.contextmanager
    def start_player(self, entry: PlayerFiles, *, building: bool = False) -> Iterator[PlayerHandle]:
        """Start a fresh player for the block; keep what it prints.

        Raises:
            SideFoul: the player does not end, or it held so much memory that the referee had too little.
            JudgeError: the device no longer works afterwards; takes precedence over a foul of the player.
        """
        foul: Foul | SideFoul | None = None
        case = (self.board.benchmarks or self.board.tests)[0]
        is_played = False
        try:
            with contextlib.ExitStack() as once_closed, self.sandbox.start_player(entry, building=building) as player:
                once_closed.callback(self.dismiss)
                once_closed.callback(self._keep_log, entry, player)
                try:
                    yield player
                except MemoryShortage as shortage:
                    error = player.suspect(shortage)
                    raise (SideFoul(entry.name, case, error) if isinstance(error, Foul) else error) from None
                is_played = True
        except SideFoul as caught:
            foul = caught
        except Foul as caught:
            foul = SideFoul(entry.name, case, caught) if is_played else caught
        self.require_device()
        if foul:
            raise foul

    def require_device(self) -> None:
        if trouble := self.device.referee_side.find_trouble() or self.gpu.find_trouble():
            raise JudgeError(f"after a player ended, {trouble}")

    def referee(self, player: PlayerHandle, *, first_call_s: float = 0.0) -> Referee:
        """The referee of the player of `start_player`, whose first call may take `first_call_s` if that is longer."""
        self._referee = Referee(player, self.reference, self.device, self.sandbox.driver, first_call_s=first_call_s)
        return self._referee

    def first_call_s(self, entry: PlayerFiles) -> float:
        """How long the first call of each player of an entry may take: torch.compile reads its cache then."""
        return self.board.limits.first_call_s if self.sandbox.has_inductor_cache(entry) else 0.0

    def dismiss(self) -> None:
        """Free what the referee has shared with a player that has ended."""
        referee, self._referee = self._referee, None
        if referee:
            referee.close()

    def calls_that_fit(self, case: Case) -> int:
        """How many calls of a case one window may hold, on a device whose memory is sealed."""
        flat = flatten(self.reference.generate(case.params, self.seed()), self.reference.device)
        return calls_that_fit(flat, self.reference.returned(case.params))

    def keep_log_of_foul(self, entry: PlayerFiles, player: PlayerHandle) -> None:
        """Once this player has ended, keep its log, and none of later players of its entry."""
        self._fouled.setdefault(entry.name, player)

    def _keep_log(self, entry: PlayerFiles, player: PlayerHandle) -> None:
        fouled = self._fouled.get(entry.name)
        if fouled is player or (not fouled and player.log):
            self.logs[entry.name] = player.log[-MAX_MESSAGE:]

    def probe(self, cases: list[Case]) -> None:
        """Try each case with the reference alone, once per context.  Raises TaskError."""
        for case in cases:
            if case.name not in self._varies:
                self._varies[case.name] = self.reference.probe(case.params)
        self.reference.require_variety((case, self._varies[case.name]) for case in cases)

    def phase(self, name: str, seconds: float, patience: float = 1, imports_s: float = math.inf) -> Phase:
        """Start a phase of `seconds`.

        Args:
            patience: how many times as long as usual each import in it may take.
            imports_s: seconds that all imports of a side together may take.
        """
        limits = self.board.limits
        return Phase(name, Deadline.of(seconds, limits.case_timeout_s), limits.import_s(patience), imports_s)

    def our_fault(self, fault: SideFoul) -> JudgeError:
        """The error for a foul of the anchor or of the idle player, which are the judge's own."""
        return JudgeError(f"{self.board.task.name}: {fault.side} got {fault.foul.verdict}: {fault.foul.message}")
