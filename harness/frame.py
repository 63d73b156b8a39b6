"""Everything in a judgement except its results: the machine, the board's device, the sandbox, versions, times."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from harness import __version__
from harness.gpu.device import Device, device_of
from harness.gpu.gpu_facts import GpuFacts, read_gpu
from harness.gpu.gpu_nodes import GpuNode, require_gpus
from harness.records.errors import JudgeError
from harness.records.fields import Mode
from harness.records.judgement import CaseResult, Claim, HarnessInfo, Judgement, SandboxInfo, SubmissionInfo, is_named
from harness.records.provenance import harness_digest
from harness.records.times import Duel, Forfeit, GpuState
from harness.records.verdict import overall
from harness.referee import machine
from harness.sandbox.sandbox import Sandbox, SandboxKind
from harness.task.submission import Submission
from harness.task.task import METHOD, Board


@dataclass(frozen=True, kw_only=True)
class Results:
    """The results of one submission."""

    cases: tuple[CaseResult, ...]
    duel: Duel | None = None
    forfeit: Forfeit | None = None
    message: str = ""
    log: str = ""
    other_work: tuple[float, ...] = ()
    """The share of a core that other work took, for each run."""
    repeats: int = 0
    """How many runs were played again, because of other work or of a call that stalled."""
    waited_s: float = 0.0
    """How long the judge waited for idle cores before its runs."""


class Frame:
    """Everything in a judgement except its results: machine, times, sandbox, versions."""

    def __init__(
        self, board: Board, kind: SandboxKind, run_url: str | None = None, device: Device | None = None
    ) -> None:
        self.board = board
        self.device = device or device_of(board.gpu)
        self.run_url = run_url
        self.started_at = datetime.now(UTC)
        self.gpus = require_gpus(board.world_size) if self.device.is_gpu else []
        self.facts = [require_facts(gpu, board) for gpu in self.gpus]
        self.machine = machine.read_machine(self.facts, board.toolchain.include_dirs)
        self.kind = kind
        self.sandbox = SandboxInfo(kind=self.kind, stop="signals")

    def note_sandbox(self, sandbox: Sandbox) -> None:
        self.sandbox = SandboxInfo(kind=self.kind, stop=sandbox.stop_kind, missing=tuple(sandbox.missing))

    def require_unhindered(self) -> None:
        """Raise JudgeError if a GPU is throttled or shared, so that its times cannot be ranked."""
        for facts in self.facts:
            if reason := facts.hindrance:
                raise JudgeError(f"{facts.name} cannot be used for ranking now: {reason}")

    def require_was_unhindered(self) -> None:
        """Raise JudgeError if a GPU was throttled or shared since the judging began."""
        for gpu, before in zip(self.gpus, self.facts, strict=True):
            now = read_gpu(gpu)
            if now and (reason := now.hindrance_since(before)):
                raise JudgeError(f"{now.name} cannot be used for ranking now: {reason}")

    @property
    def claim(self) -> Claim:
        if self.kind != "bubblewrap" or not self.board.task.is_refereed:
            return Claim.SELF_TIMED
        return Claim.BOUNDED if self.device.is_bounded else Claim.INSIDE_TIMED

    def judgement(self, submission: Submission, mode: Mode, results: Results) -> Judgement:
        verdict = overall(case.verdict for case in results.cases)
        first = next((case.message for case in results.cases if case.verdict is verdict), "")
        return Judgement(
            task=self.board.task.name,
            edition=self.board.edition,
            gpu=self.board.gpu,
            mode=mode,
            submission=_describe(submission),
            baseline=self.board.task.baseline_name(submission.digest),
            verdict=verdict,
            message=results.message or first,
            cases=results.cases,
            duel=results.duel,
            forfeit=results.forfeit,
            claim=self.claim,
            machine=machine.as_timed(
                self.machine,
                _states_of(results),
                results.other_work,
                repeats=results.repeats,
                waited_s=results.waited_s,
            ),
            sandbox=self.sandbox,
            harness=HarnessInfo(version=__version__, method=METHOD, digest=harness_digest()),
            started_at=self.started_at,
            finished_at=datetime.now(UTC),
            run_url=self.run_url,
            log=results.log,
        )


def _states_of(results: Results) -> list[GpuState]:
    """The GPU's state after each run, if recorded."""
    benchmarks = [state for case in results.cases if case.timing for state in case.timing.gpu]
    return benchmarks + [state for case in (results.duel.cases if results.duel else ()) for state in case.gpu]


def require_facts(gpu: GpuNode, board: Board) -> GpuFacts:
    """The facts that a GPU of this machine reports.

    Raises:
        JudgeError: it reports none, or it is not the device that the board expects.
    """
    if not (facts := read_gpu(gpu)):
        raise JudgeError(
            f"the board {board.gpu} needs a GPU that reports its name: install the driver's libnvidia-ml.so.1 "
            "(containers need the driver capability `utility`), or make sure that rocminfo works (AMD)"
        )
    expected = board.toolchain.device
    if expected and not is_named(facts.name, expected):
        raise JudgeError(
            f"the board {board.gpu} expects {' or '.join(expected)}, but this machine has {facts.name}: a board never "
            f"mixes devices. Remove this machine's label, or correct `device` of gpus.{board.gpu} in "
            ".github/pullrank.yml"
        )
    return facts


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
