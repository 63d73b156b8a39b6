"""`make check-gpu`: run the checks that need a GPU, and print a table for BENCHMARKS.md.

Each check is a submission to `vectoradd`, judged in the sandbox like any other.  It has an expected verdict and, if it
is timed, a minimum time.  `--rehearse` replaces the GPU with a CPU and skips the checks that need a GPU.  Then come the
examples of the participants' guide, one per language (`languages`), of which those that need a missing package are
skipped, and the attacks on a GPU's clock and caches (`gpu_exploits`).
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime

import click

from benchmarks.gpu_exploits import Exploit, beside_an_honest_sum, exploits
from benchmarks.languages import LanguageExample, arch_of, guides_examples
from harness.records.errors import PullRankError
from harness.records.fields import Mode
from harness.records.judgement import Judgement, Machine
from harness.task.submission import Submission
from harness.task.task import Board, load_task
from scripts.cli import run
from scripts.common.terminal import Display, console
from scripts.common.text import format_us
from scripts.competition.repository import TASKS

_FASTEST_MHZ = 4000
"""An upper limit of GPU clocks: sleeping for this many cycles takes at least a microsecond."""
_SKIPPED = "skipped"


@dataclass(frozen=True, kw_only=True)
class GpuCheck:
    """A submission, its expected verdict, and words that the message must contain.

    Checks with `least_us` are benchmarked; for one that `is_profiled`, the vendor's profiler must show a kernel; all
    others are only tested.
    """

    name: str
    source: str
    verdict: str = "AC"
    says: str = ""
    least_us: float | None = None
    needs_gpu: bool = True
    is_profiled: bool = False

    @property
    def mode(self) -> Mode:
        if self.is_profiled:
            return Mode.PROFILE
        return Mode.TEST if self.least_us is None else Mode.BENCHMARK


@dataclass(frozen=True, kw_only=True)
class GpuCheckResult:
    """The result of a check.

    Times are in microseconds; the bound is the time that the referee's clock cannot account for.
    """

    name: str
    right: bool
    wanted: str
    verdict: str
    message: str
    seconds: float
    time_us: float | None = None
    bound_us: float | None = None
    overhead_us: float | None = None
    interval: float | None = None


def _kernel(*lines: str, before: str = "") -> str:
    body = "".join(f"    {line}\n" for line in lines)
    return f"import os, re, sys, time\nimport torch\n{before}def custom_kernel(data):\n    a, b = data\n{body}"


_SPIN = """
def spin(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass
"""
_LIE = """
frame = sys._getframe()
while type(frame.f_locals.get("self")).__name__ != "_Player":
    frame = frame.f_back
staging = frame.f_locals["self"].staging
honest = staging.time
staging.time = lambda kernel, data: (honest(kernel, data)[0], 10.0)
"""
_STAGING = _LIE[: _LIE.index("honest")]
_KERNEL = """
def kernel_of(body):
    from torch.cuda.jiterator import _create_jit_fn
    return _create_jit_fn("template <typename T> T made(T x) { " + body + " }")
"""
"""A kernel that torch compiles at run time, for accesses that none of its operators makes."""
_HOARD = ("while True:", "    try:", "        hoard.append(torch.empty(1 << 26, dtype=torch.uint8, device=a.device))",
          "    except torch.OutOfMemoryError:", "        break", "return a + b")  # fmt: skip
_ONE_GPU = r'nodes = [name for name in os.listdir("/dev") if re.fullmatch(r"nvidia\d+", name)]'
_AFTER = "staging.time = lambda kernel, data: (kernel(data), 10.0)\nstaging._clock.flush = lambda: None\n"
"""A player's clock that does not synchronize, and caches that it does not flush."""
_ASIDE = "stream = torch.cuda.Stream() if torch.cuda.is_available() else None\n"
_STAY = "stayed = []\nstay = lambda: stayed or stayed.append(torch.cuda._sleep(1 << 60))\n"
_STRIDE = "at = torch.full((1,), 1 << 40, device=a.device)"

CHECKS = (
    GpuCheck(name="a correct sum", source=_kernel("return a + b"), least_us=0.0, needs_gpu=False),
    GpuCheck(name="a wrong sum", source=_kernel("return a"), verdict="WA", needs_gpu=False),
    GpuCheck(name="a kernel that raises", source=_kernel("raise ValueError(a)"), verdict="RTE", needs_gpu=False),
    GpuCheck(name="100 ms that report 10 µs", source=_kernel("spin(0.1)", "return a + b", before=_SPIN + _LIE),
          verdict="SV", least_us=0.0, needs_gpu=False),
    GpuCheck(name="20 ms of Python", source=_kernel("spin(0.02)", "return a + b", before=_SPIN), least_us=19_000,
          needs_gpu=False),
    GpuCheck(name="exactly one visible GPU", source=_kernel(
        _ONE_GPU, "assert torch.cuda.device_count() == 1 >= len(nodes)", "return a + b")),
    *(
        GpuCheck(name=f"{cycles} cycles of sleep", source=_kernel(f"torch.cuda._sleep({cycles})", "return a + b"),
              least_us=cycles / _FASTEST_MHZ)
        for cycles in (8_000, 80_000, 800_000, 8_000_000)
    ),
    GpuCheck(name="10 million cycles on an unsynchronized stream", least_us=10_000_000 / _FASTEST_MHZ, source=_kernel(
        "stream.wait_stream(torch.cuda.current_stream())", "with torch.cuda.stream(stream):",
        "    torch.cuda._sleep(10_000_000)", "    return a + b", before=_ASIDE)),
    GpuCheck(name="an output in host memory", source=_kernel("return (a + b).cpu()"), verdict="RTE"),
    GpuCheck(name="all of the GPU's memory", source=_kernel(*_HOARD, before="hoard = []\n"), verdict="MLE",
          says="of the GPU's memory"),
    GpuCheck(name="20 million cycles that continue after the output", verdict="SV", least_us=0.0, says="busy while",
          source=_kernel("with torch.cuda.stream(stream):", "    torch.cuda._sleep(20_000_000)", "return a + b",
                         before=_ASIDE + _STAGING + _AFTER)),
    GpuCheck(name="a kernel that runs across calls", verdict="SV", least_us=0.0, says="busy while",
          source=_kernel("with torch.cuda.stream(stream):", "    stay()", "return a + b",
                         before=_ASIDE + _STAY + _STAGING + _AFTER)),
    GpuCheck(name="a correct sum that does not flush its caches", least_us=0.0,
          source=_kernel("return a + b", before=_STAGING + "staging._clock.flush = torch.cuda.synchronize\n")),
    GpuCheck(name="more than the GPU's memory", source=_kernel("torch.empty(1 << 44, device=a.device)"), verdict="MLE"),
    GpuCheck(name="an index out of bounds", source=_kernel(_STRIDE, "return a.view(-1)[at]"), verdict="RTE",
          says="out of bounds"),
    GpuCheck(name="an unmapped address", verdict="RTE", says="outside its memory", source=_kernel(
        'return kernel_of("return *(volatile T*)64;")(a.float())', before=_KERNEL)),
    GpuCheck(name="a misaligned address", verdict="RTE", says="not a multiple of", source=_kernel(
        'return kernel_of("return *(volatile T*)1;")(a.float())', before=_KERNEL)),
    GpuCheck(name="a missing package", source="import no_such_thing\n" + _kernel("return a + b"),
          verdict="CE", says="not installed for this board", needs_gpu=False),
    GpuCheck(name="a kernel that never ends", source=_kernel("torch.cuda._sleep(1 << 60)", "return a + b"),
          verdict="TLE"),
    GpuCheck(name="a profile, with the vendor's counters", source=_kernel("return a + b"), is_profiled=True),
    GpuCheck(name="a correct sum, after all of these", source=_kernel("return a + b"), least_us=0.0),
)  # fmt: skip


@click.command()
@click.option("--rehearse", is_flag=True, help="Use a CPU instead of a GPU, and skip the checks that need one.")
@click.option(
    "--sandbox",
    type=click.Choice(["auto", "none"]),
    default="auto",
    help="The sandbox. `none` is for your own code only, and never ranks.",
)
@click.option("--only", metavar="WORDS", default="", help="Run only the checks whose name contains these words.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def main(rehearse: bool, sandbox: str, only: str, as_json: bool) -> int:
    """Run the checks that need a GPU and print a table for BENCHMARKS.md.

    Exits with 0 if all results are as expected, and with 1 if not.

    Example: python -m benchmarks.gpu --rehearse
    """
    asked = [check for check in CHECKS if only in check.name]
    checks = [check for check in asked if not (rehearse and check.needs_gpu)]
    all_examples = [example for example in guides_examples() if only in example.name]
    examples = [example for example in all_examples if not (rehearse and example.needs_gpu)]
    all_attacks = [attack for attack in exploits() if only in attack.name]
    attacks = [attack for attack in all_attacks if not (rehearse and attack.needs_gpu)]
    if not (checks or examples or attacks):
        raise click.UsageError(f"no check that can run here has '{only}' in its name")
    board = load_task(TASKS / "vectoradd").board("CPU")
    # A GPU build of torch maps large libraries, which count as memory.
    limits = replace(board.limits, memory_gib=board.limits.memory_gib if rehearse else 16)
    board = replace(board, gpu="CPU" if rehearse else "GPU", tests=board.tests[:2], benchmarks=board.benchmarks[:1])
    board = replace(board, limits=limits)
    seen: list[GpuCheckResult] = []
    machine = _read_machine(rehearse=rehearse)
    with Display(console(stderr=True), [20.0] * (len(checks) + len(examples) + len(attacks))) as display:
        for check in checks:
            display.begin(check.name)
            judgement, seconds = _judge(check, board, sandbox, rehearse=rehearse)
            machine = judgement.machine
            seen.append(_look(check, judgement, seconds))
        for example in examples:
            display.begin(example.name)
            seen.append(_try_example(example, board, sandbox, machine, rehearse=rehearse))
        for attack in attacks:
            display.begin(attack.name)
            seen.append(_try_attack(attack, board, sandbox, rehearse=rehearse))
    if as_json:
        click.echo(json.dumps({"machine": machine.model_dump(), "seen": [asdict(one) for one in seen]}, indent=1))
    else:
        left_out = len([*asked, *all_examples, *all_attacks]) - len(seen)
        click.echo("\n".join(_table(machine, seen, rehearse=rehearse, left_out=left_out)))
    return int(not all(one.right for one in seen))


def _read_machine(*, rehearse: bool) -> Machine:
    """Raises JudgeError if there is no GPU and this is no rehearsal."""
    from harness.gpu.gpu_facts import read_gpu
    from harness.referee.machine import read_machine
    from harness.sandbox.sandbox import require_gpus

    facts = [] if rehearse else [read_gpu(gpu) for gpu in require_gpus()]
    return read_machine([one for one in facts if one])


def _try_example(
    example: LanguageExample, board: Board, sandbox: str, machine: Machine, *, rehearse: bool
) -> GpuCheckResult:
    """Judge an example of the guide, which must be accepted.  An error of the judge does not stop the other checks."""
    from harness.gpu.device import CUDA, REHEARSAL
    from harness.judge import judge

    name = f"{example.name}, as in the guide"
    if reason := example.why_skipped():
        return GpuCheckResult(name=name, right=True, wanted="AC", verdict=_SKIPPED, message=reason, seconds=0.0)
    if example.is_compiled:
        board = replace(example.board(arch_of(machine.device)), gpu="GPU")
    start = time.monotonic()
    try:
        judgement = judge(board, example.submission, Mode.TEST, sandbox=sandbox, device=REHEARSAL if rehearse else CUDA)
    except PullRankError as error:
        seconds = time.monotonic() - start
        return GpuCheckResult(
            name=name, right=False, wanted="AC", verdict="JE", message=str(error), seconds=round(seconds, 1)
        )
    return _look(GpuCheck(name=name, source=""), judgement, time.monotonic() - start)


def _try_attack(attack: Exploit, board: Board, sandbox: str, *, rehearse: bool) -> GpuCheckResult:
    """Judge an attack, which must be caught or gain no more than expected."""
    name, wanted = f"attack: {attack.name}", ", ".join(attack.expected)
    check = GpuCheck(name=name, source=attack.submission.text, least_us=0.0)
    start = time.monotonic()
    try:
        judgement, seconds = _judge(check, beside_an_honest_sum(board), sandbox, rehearse=rehearse)
    except PullRankError as error:
        seconds = time.monotonic() - start
        return GpuCheckResult(
            name=name, right=False, wanted=wanted, verdict="JE", message=str(error), seconds=round(seconds, 1)
        )
    return replace(_look(check, judgement, seconds), right=attack.is_stopped(judgement), wanted=wanted)


def _judge(check: GpuCheck, board: Board, sandbox: str, *, rehearse: bool) -> tuple[Judgement, float]:
    from harness.gpu.device import CUDA, REHEARSAL
    from harness.judge import judge

    submission = Submission(login="check-gpu", source=check.source.encode())
    start = time.monotonic()
    judgement = judge(board, submission, check.mode, sandbox=sandbox, device=REHEARSAL if rehearse else CUDA)
    return judgement, time.monotonic() - start


def _look(check: GpuCheck, judgement: Judgement, seconds: float) -> GpuCheckResult:
    timing = next((case.timing for case in judgement.benchmarks if case.timing), None)
    is_right = judgement.verdict.value == check.verdict and check.says in judgement.message
    if timing and check.least_us is not None:
        is_right = is_right and timing.submission_us + timing.overhead_us >= check.least_us
    counters = [case.profile.counters for case in judgement.profiles if case.profile]
    troubles = [one.trouble if one else "no vendor's profiler was used" for one in counters if not one or one.trouble]
    if check.is_profiled:
        is_right = is_right and bool(counters) and not troubles
    wanted = check.verdict if not check.least_us else f"{check.verdict}, {format_us(check.least_us)} or more"
    return GpuCheckResult(
        name=check.name,
        right=is_right,
        wanted=wanted,
        verdict=judgement.verdict.value,
        message=" ".join(" ".join([judgement.message, *troubles]).split())[:400],
        seconds=round(seconds, 1),
        time_us=timing.submission_us if timing else None,
        bound_us=timing.bound_us if timing else None,
        overhead_us=timing.overhead_us if timing else None,
        interval=timing.ratio.log_half_width if timing else None,
    )


def _table(machine: Machine, seen: list[GpuCheckResult], *, rehearse: bool, left_out: int) -> Iterator[str]:
    driver = f", driver {machine.driver}" if machine.driver else ""
    yield f"## {'Rehearsed without' if rehearse else 'On'} a GPU, {datetime.now(UTC):%Y-%m-%d}\n"
    yield f"{machine.device}{driver}, torch {machine.torch}, {machine.cpu}, {machine.cores} cores, {machine.os}."
    yield f"{machine.note}\n" if machine.note else ""
    yield "| check | expected | got | time | clock overhead | bound | ± | seconds | |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for one in seen:
        times = [format_us(us) if us is not None else "" for us in (one.time_us, one.overhead_us, one.bound_us)]
        interval = f"{one.interval:.1%}" if one.interval is not None else ""
        said = (
            one.message
            if one.verdict == "skipped"
            else ""
            if one.right
            else f"UNEXPECTED: {one.message.replace('|', '/')}"
        )
        cells = (one.name, one.wanted, one.verdict, *times, interval, f"{one.seconds:g}", said)
        yield f"| {' | '.join(cells)} |"
    if left_out:
        yield f"\nSkipped, because they need a GPU: {left_out}."


if __name__ == "__main__":
    sys.exit(run(command=main))
