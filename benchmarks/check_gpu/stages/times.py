"""Stage 4: ten kernels from 3 µs to 10 ms, judged against themselves, and timed by other methods.

    judge      a ranked judging whose anchor is the same kernel: the true ratio is 1
    peers      the same task by other methods (`peers`), each in a fresh process
    report     bias against CUPTI's timestamps, spread, seconds, and whether the claims hold (`times_report`)

The methods take turns, and each repetition reverses their order, so that drift affects them equally.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from math import log
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.check_gpu.probe import CheckOptions, MissingError, Probe, ProbeAnswer

if TYPE_CHECKING:
    from harness.task.task import Board, Case

OURS, PEERS = "judge", ("queued", "replay", "cupti", "do_bench", "kernelbot")
_JUDGED_S, _TIMED_S, _LIMIT_S = 90.0, 20.0, 300.0


@dataclass(frozen=True, kw_only=True)
class Taken:
    """One measurement of a kernel by one method: its time in microseconds, and the seconds that measuring took.

    The judge also gives the ratio to the anchor with its interval, and the bound: the time that the referee's clock
    cannot account for.
    """

    way: str
    kernel: str
    us: float
    seconds: float
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    bound_us: float | None = None
    is_disturbed: bool = False
    """In a rehearsal, which times a CPU: other programs used the cores, so the ratio shows nothing."""

    @property
    def is_right(self) -> bool | None:
        """Whether the interval contains the ratio of a kernel to itself, as 95 % should; None without an interval."""
        return None if self.low is None or self.high is None else self.low <= 1 <= self.high

    @property
    def is_far_off(self) -> bool:
        """Whether even an interval of twice the width would not contain it, although nothing disturbed it."""
        if self.is_disturbed or self.ratio is None or self.low is None or self.high is None:
            return False
        return abs(log(self.ratio)) > log(self.high / self.low)

    @property
    def against_itself(self) -> str:
        """`, 1.002 times itself [0.998, 1.006]`"""
        return "" if self.low is None else f", {self.ratio:.3f} times itself [{self.low:.3f}, {self.high:.3f}]"


@dataclass(frozen=True, kw_only=True)
class TimedKernel:
    """A kernel's work and its amount: cycles to spin, numbers to add or to sum, or the side of a matrix."""

    name: str
    work: str
    amount: int
    rehearsed: int | None = None
    """The amount on a CPU; None if it is the same."""

    def case(self, *, rehearse: bool) -> Case:
        from harness.records.fields import CaseKind
        from harness.task.task import Case

        amount = self.rehearsed if rehearse and self.rehearsed else self.amount
        return Case(kind=CaseKind.BENCHMARK, params={"work": self.work, "amount": amount, "seed": 1})


KERNELS = (
    TimedKernel(name="spin, 6 thousand cycles", work="spin", amount=6_000),
    TimedKernel(name="spin, 60 thousand", work="spin", amount=60_000),
    TimedKernel(name="spin, 600 thousand", work="spin", amount=600_000),
    TimedKernel(name="spin, 20 million", work="spin", amount=20_000_000),
    TimedKernel(name="add, 1 MiB each", work="add", amount=1 << 18, rehearsed=1 << 16),
    TimedKernel(name="add, 64 MiB each", work="add", amount=1 << 24, rehearsed=1 << 20),
    TimedKernel(name="sum of 64 MiB", work="sum", amount=1 << 24, rehearsed=1 << 20),
    TimedKernel(name="matmul, side 512", work="matmul", amount=512, rehearsed=64),
    TimedKernel(name="matmul, side 2048", work="matmul", amount=2048, rehearsed=256),
    TimedKernel(name="matmul, side 4096", work="matmul", amount=4096, rehearsed=512),
)

GROUPS = {
    "spins": tuple(one for one in KERNELS if one.work == "spin"),
    "memory": tuple(one for one in KERNELS if one.work in ("add", "sum")),
    "matmul": tuple(one for one in KERNELS if one.work == "matmul"),
}
"""What one probe measures.  Each kernel is in one group."""
_REHEARSED = {"spins": KERNELS[2:3]}

_TASK_YML = """
title: Ten kernels
description: Do the work that is named.
gpus: [CPU]
anchor: examples/accepted/same.py
tests:
  - {work: spin, amount: 1000, seed: 1}
  - {work: add, amount: 1000, seed: 2}
  - {work: sum, amount: 1000, seed: 3}
  - {work: matmul, amount: 32, seed: 4}
benchmarks: [{work: add, amount: 1000, seed: 1}]
memory_gib: 4
"""
_TASK = """
import time
import torch

def compute(data):
    work, amount, a, b = data
    if work == "spin":
        if a.is_cuda:
            torch.cuda._sleep(amount)
        else:
            end = time.perf_counter_ns() + amount // 2
            while time.perf_counter_ns() < end:
                pass
    return a.sum() if work == "sum" else a @ b if work == "matmul" else a + b
"""
_REFERENCE = """
import torch
from harness.checker import compare

def generate_input(work, amount, seed):
    torch.manual_seed(seed)
    shape = {"spin": (256,), "matmul": (amount, amount)}.get(work, (amount,))
    return work, amount, torch.rand(shape), torch.rand(shape if work != "sum" else (1,))

def ref_kernel(data):
    work, _, a, b = data
    return a.double().sum().float() if work == "sum" else a @ b if work == "matmul" else a + b

def check_implementation(data, output):
    return compare(output, ref_kernel(data), rtol=1e-4, atol=0)
"""
_KERNEL = "from task import compute\n\ndef custom_kernel(data):\n    return compute(data)\n"
_WRONG = "def custom_kernel(data):\n    return data[2]\n"


def probes(options: CheckOptions) -> Iterator[Probe]:
    for repetition in range(options.repetitions):
        for name, kernels in (_REHEARSED if options.rehearse else GROUPS).items():
            for way in (OURS, *PEERS) if repetition % 2 == 0 else (*reversed(PEERS), OURS):
                yield Probe(
                    name=f"{way}: {name}, {repetition + 1}",
                    run=partial(measure, way=way, kernels=kernels),
                    usual_s=_JUDGED_S if way == OURS and not options.rehearse else _TIMED_S,
                    limit_s=_LIMIT_S,
                    judges=way == OURS,
                )


def measure(options: CheckOptions, *, way: str, kernels: Sequence[TimedKernel]) -> ProbeAnswer:
    """Measure each kernel by one method; none of the judge's ratios may be far from the true one."""
    from scripts.common.text import format_us

    with board_of(kernels, rehearse=options.rehearse) as board:
        start = time.monotonic()
        names = [kernel.name for kernel in kernels]
        taken = list(_judge(board, names, options) if way == OURS else ask_peer(way, board, names, options))
        seconds = time.monotonic() - start
    words = "; ".join(f"{one.kernel}: {format_us(one.us)}{one.against_itself}" for one in taken)
    data = {"way": way, "seconds": seconds, "taken": [asdict(one) for one in taken]}
    return ProbeAnswer(words=words, is_good=not any(one.is_far_off for one in taken), data=data)


@contextmanager
def board_of(kernels: Sequence[TimedKernel], *, rehearse: bool) -> Iterator[Board]:
    """The board of a generated task; its folder also contains the submission."""
    from harness.task.task import load_task

    files = {
        "task.yml": _TASK_YML,
        "task.py": _TASK,
        "reference.py": _REFERENCE,
        "submission.py": _KERNEL,
        "examples/accepted/same.py": _KERNEL,
        "examples/wrong_answer/input.py": _WRONG,
    }
    with tempfile.TemporaryDirectory(prefix="check-gpu-") as scratch:
        folder = Path(scratch) / "ten"
        for name, content in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(content, "utf-8")
        board = load_task(folder).board("CPU")
        limits = replace(board.limits, ranked_timeout_s=3600.0, memory_gib=board.limits.memory_gib if rehearse else 16)
        benchmarks = tuple(kernel.case(rehearse=rehearse) for kernel in kernels)
        yield replace(board, gpu="CPU" if rehearse else "GPU", benchmarks=benchmarks, limits=limits)


def _judge(board: Board, kernels: Sequence[str], options: CheckOptions) -> Iterator[Taken]:
    from benchmarks.check_gpu.stages.judging import judge_file
    from harness.records.errors import JudgeError
    from harness.records.fields import Mode
    from harness.records.stats import MIN_PAIRS
    from harness.task.submission import Submission

    submission = Submission(login="check-gpu", source=_KERNEL.encode())
    judgement = judge_file(options, board, submission, Mode.RANKED, MIN_PAIRS if options.rehearse else None)
    if judgement.verdict.value != "AC":
        raise JudgeError(f"the kernels got {judgement.verdict}: {judgement.message}")
    for kernel, case in zip(kernels, judgement.benchmarks, strict=True):
        assert case.timing
        yield Taken(
            way=OURS,
            kernel=kernel,
            us=case.timing.submission_us,
            seconds=case.seconds,
            ratio=case.timing.ratio.value,
            low=case.timing.ratio.low,
            high=case.timing.ratio.high,
            bound_us=case.timing.bound_us,
            is_disturbed=options.rehearse and not judgement.machine.quiet,
        )


def ask_peer(way: str, board: Board, kernels: Sequence[str], options: CheckOptions) -> Iterator[Taken]:
    device = "cpu" if options.rehearse else "cuda"
    cases = [json.dumps([dict(case.params) for case in some]) for some in (board.tests, board.benchmarks)]
    command = [sys.executable, "-m", "benchmarks.check_gpu.stages.peers", way, str(board.task.folder), device, *cases]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=_LIMIT_S, check=True)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if reason := lines[0].get("skipped"):
        raise MissingError(reason)
    for kernel, line in zip(kernels, lines, strict=True):
        yield Taken(way=way, kernel=kernel, us=line["us"], seconds=line["seconds"])
