"""Stage 2: verdicts and times of submissions to `vectoradd`, judged in the sandbox like any other, and of attacks.

Each check has an expected verdict and, if it is timed, a minimum time.  The attacks on a GPU's clock and caches must be
caught, or gain no more than the bound (`attacks`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.check_gpu.probe import ROOT, CheckOptions, MissingError, Probe, ProbeAnswer
from benchmarks.check_gpu.stages.attacks import Exploit, beside_an_honest_sum, exploits
from benchmarks.check_gpu.stages.machine import driver_of

if TYPE_CHECKING:
    from harness.records.fields import Mode
    from harness.records.judgement import Judgement
    from harness.records.times import Timing
    from harness.task.submission import Submission
    from harness.task.task import Board

_FASTEST_MHZ = 4000
"""An upper limit of GPU clocks: sleeping for this many cycles takes at least a microsecond."""
FEW_PAIRS = 2
_USUAL_S, _ATTACK_S = 10.0, 20.0


@dataclass(frozen=True, kw_only=True)
class GpuCheck:
    """A submission, its expected verdict, and words that the message must contain.

    Checks with `least_us` are benchmarked against themselves; for one that `is_profiled`, the vendor's profiler must
    show a kernel; all others are only tested.
    """

    name: str
    source: str
    verdict: str = "AC"
    says: str = ""
    least_us: float | None = None
    needs_gpu: bool = True
    needs_sandbox: bool = False
    memory_gib: float = 16
    """A GPU build of torch maps large libraries, which count as memory."""
    is_profiled: bool = False


def _kernel(*lines: str, before: str = "") -> str:
    body = "".join(f"    {line}\n" for line in lines)
    return f"import os, re, sys, time\nimport torch\n{before}def custom_kernel(data):\n    a, b = data\n{body}"


_SPIN = """
clock = time.perf_counter
def spin(seconds):
    end = clock() + seconds
    while clock() < end:
        pass
"""
_CLOCKS = """
for name in ("perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "time", "time_ns"):
    setattr(time, name, lambda: 1)
"""
"""Clocks that stand still."""
_HURRIED = """
frame = sys._getframe()
while type(frame.f_locals.get("self")).__name__ != "_Player":
    frame = frame.f_back
shared = frame.f_locals["self"].shared or frame.f_locals["self"]
shared.synchronize = lambda: None
"""
"""A player that says "done" while its kernels run."""
_AWAITED = "shared.synchronize = torch.cuda.current_stream().synchronize\n"
"""It says so when its current stream is done."""
_KERNEL = """
def kernel_of(body):
    from torch.cuda.jiterator import _create_jit_fn
    return _create_jit_fn("template <typename T> T made(T x) { " + body + " }")
"""
"""A kernel that torch compiles at run time, for accesses that none of its operators makes."""
_HOARD = ("while True:", "    try:", "        hoard.append(torch.empty(1 << 26, dtype=torch.uint8, device=a.device))",
          "    except torch.OutOfMemoryError:", "        break", "return a + b")  # fmt: skip
_PINNED = ("while True:", "    hoard.append(torch.empty(1 << 28, dtype=torch.uint8, pin_memory=True))")
_ONE_GPU = r'nodes = [name for name in os.listdir("/dev") if re.fullmatch(r"nvidia\d+", name)]'
_ASIDE = "stream = torch.cuda.Stream() if torch.cuda.is_available() else None\n"
_STAY = "stayed = []\nstay = lambda: stayed or stayed.append(torch.cuda._sleep(1 << 60))\n"
_STRIDE = "at = torch.full((1,), 1 << 40, device=a.device)"

CHECKS = (
    GpuCheck(name="a correct sum", source=_kernel("return a + b"), least_us=0.0, needs_gpu=False),
    GpuCheck(name="a wrong sum", source=_kernel("return a"), verdict="WA", needs_gpu=False),
    GpuCheck(name="a kernel that raises", source=_kernel("raise ValueError(a)"), verdict="RTE", needs_gpu=False),
    GpuCheck(name="50 ms with clocks that stand still", least_us=49_000, needs_gpu=False,
          source=_kernel("spin(0.05)", "return a + b", before=_SPIN + _CLOCKS)),
    GpuCheck(name="exactly one visible GPU", needs_sandbox=True, source=_kernel(
        _ONE_GPU, "assert torch.cuda.device_count() == 1 >= len(nodes)", "return a + b")),
    *(
        GpuCheck(name=f"{cycles} cycles of sleep", source=_kernel(f"torch.cuda._sleep({cycles})", "return a + b"),
              least_us=cycles / _FASTEST_MHZ)
        for cycles in (8_000, 80_000, 800_000, 8_000_000)
    ),
    GpuCheck(name="10 million cycles on another stream", least_us=10_000_000 / _FASTEST_MHZ, source=_kernel(
        "stream.wait_stream(torch.cuda.current_stream())", "with torch.cuda.stream(stream):",
        "    torch.cuda._sleep(10_000_000)", "    c = a + b", "torch.cuda.current_stream().wait_stream(stream)",
        "return c", before=_ASIDE)),
    GpuCheck(name="an output in host memory", source=_kernel("return (a + b).cpu()"), verdict="WA"),
    GpuCheck(name="all of the GPU's memory", source=_kernel(*_HOARD, before="hoard = []\n"), verdict="MLE",
          says="of the GPU's memory"),
    GpuCheck(name="an output that comes after \"done\"", verdict="WA", source=_kernel(
        "stream.wait_stream(torch.cuda.current_stream())", "with torch.cuda.stream(stream):",
        "    torch.cuda._sleep(2_000_000_000)", "    return a.add_(b)", before=_ASIDE + _HURRIED)),
    GpuCheck(name="a kernel that runs across calls", verdict="TLE", source=_kernel(
        "with torch.cuda.stream(stream):", "    stay()", "return a + b",
        before=_ASIDE + _STAY + _HURRIED + _AWAITED)),
    GpuCheck(name="more pinned memory than allowed", verdict="MLE", says="GiB of memory", memory_gib=4,
          source=_kernel(*_PINNED, before="hoard = []\n")),
    GpuCheck(name="more than the GPU's memory", source=_kernel("torch.empty(1 << 44, device=a.device)"), verdict="MLE"),
    GpuCheck(name="an index out of bounds", source=_kernel(_STRIDE, "return a.view(-1)[at]"), verdict="RTE",
          says="out of bounds"),
    GpuCheck(name="an unmapped address", verdict="RTE", says="outside its memory", source=_kernel(
        'return kernel_of("return *(volatile T*)64;")(a.float())', before=_KERNEL)),
    GpuCheck(name="a misaligned address", verdict="RTE", says="not a multiple of", source=_kernel(
        'return kernel_of("__shared__ char s[64]; return *(volatile T*)(s + 1);")(a.float())', before=_KERNEL)),
    GpuCheck(name="a missing package", source="import no_such_thing\n" + _kernel("return a + b"),
          verdict="CE", says="not installed for this board", needs_gpu=False),
    GpuCheck(name="a kernel that never ends", source=_kernel("torch.cuda._sleep(1 << 60)", "return a + b"),
          verdict="TLE"),
    GpuCheck(name="a correct sum, after all of these", source=_kernel("return a + b"), least_us=0.0),
)  # fmt: skip

A_SUM = GpuCheck(name="a sum by torch as a submission", source=_kernel("return a + b"), needs_gpu=False)
PROFILED = GpuCheck(name="the vendor's profiler", source=A_SUM.source, is_profiled=True)


def probes(_: CheckOptions) -> Iterator[Probe]:
    for check in CHECKS:
        yield probe_of(check)
    for attack in exploits():
        run = partial(_judge_attack, attack=attack)
        yield Probe(name=f"attack: {attack.name}", run=run, usual_s=_ATTACK_S, judges=True, needs_gpu=attack.needs_gpu)


def probe_of(check: GpuCheck) -> Probe:
    run = partial(_judge_check, check=check)
    return Probe(name=check.name, run=run, usual_s=_USUAL_S, judges=True, needs_gpu=check.needs_gpu)


def _judge_check(options: CheckOptions, *, check: GpuCheck) -> ProbeAnswer:
    from harness.records.fields import Mode
    from harness.task.submission import Submission

    if check.needs_sandbox and options.sandbox == "none":
        raise MissingError("needs a sandbox")
    board = small_board(options, check.memory_gib)
    if check.least_us is not None:  # a quick anchor would put many slow calls into a window
        anchor = Path(options.scratch) / "anchor.py"
        anchor.write_text(check.source, "utf-8")
        board = replace(board, task=replace(board.task, anchor=anchor))
    mode = Mode.PROFILE if check.is_profiled else Mode.TEST if check.least_us is None else Mode.BENCHMARK
    submission = Submission(login="check-gpu", source=check.source.encode())
    pairs = FEW_PAIRS if mode is Mode.BENCHMARK else None
    return _look(check, judge_file(options, board, submission, mode, pairs))


def _judge_attack(options: CheckOptions, *, attack: Exploit) -> ProbeAnswer:
    from harness.records.fields import Mode

    board = beside_an_honest_sum(small_board(options))
    judgement = judge_file(options, board, attack.submission, Mode.BENCHMARK, FEW_PAIRS if options.rehearse else None)
    return answer_of(judgement, "no gain beyond the bound", is_good=attack.is_stopped_by_sealed_memory(judgement))


def small_board(options: CheckOptions, memory_gib: float = GpuCheck.memory_gib) -> Board:
    """Two tests and a benchmark of `vectoradd`."""
    from harness.task.task import load_task

    board = load_task(ROOT / "tasks" / "vectoradd").board("CPU")
    limits = replace(board.limits, memory_gib=board.limits.memory_gib if options.rehearse else memory_gib)
    benchmark = board.benchmarks[0]
    if options.rehearse:  # a window may hold fifty of these, all made and checked by a CPU
        benchmark = replace(benchmark, params={**benchmark.params, "size": 64})
    gpu = "CPU" if options.rehearse else "GPU"
    return replace(board, gpu=gpu, tests=board.tests[:2], benchmarks=(benchmark,), limits=limits)


def judge_file(
    options: CheckOptions, board: Board, submission: Submission, mode: Mode, pairs: int | None = None
) -> Judgement:
    """Judge a file on this machine's GPU, or in a rehearsal on a driver that needs none.  Raises JudgeError.

    `pairs` of runs are enough for a benchmark whose interval does not matter.
    """
    from harness.gpu.device import Device, device_of
    from harness.judge import JudgeSession, judge

    device = Device(name="cpu", driver=driver_of(options)) if options.rehearse else device_of("GPU")
    if pairs is None:
        return judge(board, submission, mode, sandbox=options.sandbox, device=device)
    with JudgeSession(board, sandbox=options.sandbox, device=device) as session:
        return session.judge(submission, mode, pairs=pairs)


def _look(check: GpuCheck, judgement: Judgement) -> ProbeAnswer:
    timing = _timing(judgement)
    is_good = judgement.verdict.value == check.verdict and check.says in judgement.message
    if timing and check.least_us is not None:
        is_good = is_good and timing.submission_us + timing.overhead_us >= check.least_us
    counters = [case.profile.counters for case in judgement.profiles if case.profile]
    troubles = [one.trouble if one else "no vendor's profiler was used" for one in counters if not one or one.trouble]
    if check.is_profiled:
        is_good = is_good and bool(counters) and not troubles
    wanted = " ".join(filter(None, (check.verdict, check.says and f"that says '{check.says}'")))
    if check.least_us:
        wanted += f", {check.least_us:g} µs or more"
    return answer_of(judgement, wanted, *troubles, is_good=is_good)


def _timing(judgement: Judgement) -> Timing | None:
    return next((case.timing for case in judgement.benchmarks if case.timing), None)


def answer_of(judgement: Judgement, wanted: str, *troubles: str, is_good: bool) -> ProbeAnswer:
    from scripts.common.text import format_us

    words = [judgement.verdict.value]
    data: dict[str, Any] = {"wanted": wanted, "verdict": judgement.verdict.value, "message": judgement.message}
    if timing := _timing(judgement):
        words.append(format_us(timing.submission_us))
        words.append(f"{timing.ratio.value:.3f} ±{timing.ratio.log_half_width:.1%} of the anchor's")
        words.append(f"bound {format_us(timing.bound_us)}, clock overhead {format_us(timing.overhead_us)}")
        data |= timing.model_dump(mode="json")
    said = ", ".join(words)
    if not is_good:
        said = f"expected {wanted}; got {said}: {'; '.join([judgement.message, *troubles])}"
    return ProbeAnswer(words=said, is_good=is_good, data=data)
