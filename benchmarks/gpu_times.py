"""`make bench-gpu`: compare the judge's times on a GPU with other methods, on ten kernels from 3 µs to 10 ms.

    judge      a ranked judging of all ten: events inside the windows, cold L2, the referee's clock around them
    peers      the same task by other methods (`peers`), each in a fresh process
    tables     bias against replay, spread, seconds, and whether the claims hold (`gpu_tables`)

The methods take turns in each repetition, so that drift affects them equally.  The anchor does a kernel's work twice.
With `--rehearse` a CPU replaces the GPU, and the results say nothing about any GPU.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context
from pathlib import Path

import click

from benchmarks.gpu_tables import OURS, Measured, Taken, report_of
from harness.records.errors import JudgeError
from harness.records.fields import CaseKind, Mode
from harness.records.judgement import Judgement, Machine
from harness.task.submission import Submission
from harness.task.task import Board, Case, load_task
from scripts import cli

_PEERS = ("replay", "cupti", "do_bench", "kernelbot")
_PEER_S = 1800


@dataclass(frozen=True, kw_only=True)
class TimedKernel:
    """A kernel's work and its amount: cycles to spin, numbers to add or to sum, or the side of a matrix."""

    name: str
    work: str
    amount: int
    rehearsed: int | None = None
    """The amount on a CPU; None if it is the same."""

    def case(self, *, rehearse: bool) -> Case:
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

_TASK_YML = """
title: Ten kernels
description: Do the work that is named.
gpus: [CPU]
anchor: examples/accepted/twice.py
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
_ONCE = "from task import compute\n\ndef custom_kernel(data):\n    return compute(data)\n"
_TWICE = "from task import compute\n\ndef custom_kernel(data):\n    compute(data)\n    return compute(data)\n"
_WRONG = "def custom_kernel(data):\n    return data[2]\n"


@click.command()
@click.option("--rehearse", is_flag=True, help="Use a CPU instead of a GPU, to show that everything runs.")
@click.option(
    "--repetitions", default=20, show_default=True, type=click.IntRange(2), help="Repetitions of each method."
)
@click.option("--only", metavar="WORDS", default="", help="Run only the kernels whose name contains these words.")
@click.option(
    "--sandbox",
    type=click.Choice(["auto", "none"]),
    default="auto",
    help="The sandbox. `none` is for your own code only, and never ranks.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON: every number and the claims.")
@click.option("--raw", type=click.Path(dir_okay=False, path_type=Path), help="Write all numbers so far to this file.")
def main(rehearse: bool, repetitions: int, only: str, sandbox: str, as_json: bool, raw: Path | None) -> int:
    """Compare the judge's times on a GPU with other methods and print a table for BENCHMARKS.md.

    Example: python -m benchmarks.gpu_times --rehearse --repetitions 2 --only spin
    """
    kernels = [kernel for kernel in KERNELS if only in kernel.name]
    if not kernels:
        raise click.UsageError(f"no kernel has '{only}' in its name")
    with _board(kernels, rehearse=rehearse) as board:
        found = Measured(kernels=tuple(kernel.name for kernel in kernels), is_rehearsed=rehearse)
        try:
            _take_turns(board, found, repetitions, sandbox, raw)
        finally:  # report what was measured so far, even after an interruption
            if found.seconds:
                report = report_of(found)
                shown = json.dumps(asdict(found) | {"claims": [asdict(claim) for claim in report.claims]}, indent=1)
                click.echo(shown if as_json else report.text)
    return 0


def _take_turns(board: Board, found: Measured, repetitions: int, sandbox: str, raw: Path | None) -> None:
    for repetition in range(repetitions):
        for way in (OURS, *_PEERS) if repetition % 2 == 0 else (*reversed(_PEERS), OURS):
            if way in found.skipped:
                continue
            start = time.monotonic()
            taken = list(_judge(board, sandbox, found) if way == OURS else _ask_peer(way, board, found))
            seconds = time.monotonic() - start
            if way not in found.skipped:
                found.taken += taken
                found.seconds.setdefault(way, []).append(seconds)
            click.echo(
                f"{repetition + 1} of {repetitions}, {way}: {found.skipped.get(way, f'{seconds:.1f} s')}", err=True
            )
            if raw:
                _keep(raw, found)


def _keep(path: Path, found: Measured) -> None:
    beside = path.with_name(f"{path.name}.new")
    beside.write_text(json.dumps(asdict(found)), "utf-8")
    os.replace(beside, path)


@contextmanager
def _board(kernels: list[TimedKernel], *, rehearse: bool) -> Iterator[Board]:
    """The board of a generated task; its folder also contains the submission."""
    files = {
        "task.yml": _TASK_YML,
        "task.py": _TASK,
        "reference.py": _REFERENCE,
        "submission.py": _ONCE,
        "examples/accepted/twice.py": _TWICE,
        "examples/wrong_answer/input.py": _WRONG,
    }
    with tempfile.TemporaryDirectory(prefix="bench-gpu-") as scratch:
        folder = Path(scratch) / "ten"
        for name, content in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(content, "utf-8")
        board = load_task(folder).board("CPU")
        limits = replace(board.limits, ranked_timeout_s=3600.0, memory_gib=board.limits.memory_gib if rehearse else 16)
        benchmarks = tuple(kernel.case(rehearse=rehearse) for kernel in kernels)
        yield replace(board, gpu="CPU" if rehearse else "GPU", benchmarks=benchmarks, limits=limits)


def _judge(board: Board, sandbox: str, found: Measured) -> Iterator[Taken]:
    # Judge in a separate process: a CUDA context left on the GPU would keep the next judging from ranking.
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        judgement = process.submit(_judgement, board, sandbox, found.is_rehearsed).result()
    if judgement.verdict.value != "AC":
        raise JudgeError(f"the ten kernels got {judgement.verdict}: {judgement.message}")
    found.machine = _machine(judgement.machine)
    for kernel, case in zip(found.kernels, judgement.benchmarks, strict=True):
        assert case.timing
        yield Taken(
            way=OURS,
            kernel=kernel,
            us=case.timing.submission_us,
            seconds=case.seconds,
            ratio=case.timing.ratio.value,
            bound_us=case.timing.bound_us,
        )


def _judgement(board: Board, sandbox: str, rehearse: bool) -> Judgement:
    from harness.gpu.device import CUDA, REHEARSAL
    from harness.judge import judge

    submission = Submission(login="bench-gpu", source=_ONCE.encode())
    return judge(board, submission, Mode.RANKED, sandbox=sandbox, device=REHEARSAL if rehearse else CUDA)


def _machine(machine: Machine) -> str:
    driver = f", driver {machine.driver}" if machine.driver else ""
    clock = f", {machine.clock_mhz:.0f} MHz" if machine.clock_mhz else ""
    return f"{machine.device}{driver}{clock}, torch {machine.torch}, {machine.cpu}, {machine.cores} cores, {machine.os}"


def _ask_peer(way: str, board: Board, found: Measured) -> Iterator[Taken]:
    device = "cpu" if found.is_rehearsed else "cuda"
    cases = [json.dumps([dict(case.params) for case in some]) for some in (board.tests, board.benchmarks)]
    command = [sys.executable, "-m", "benchmarks.peers", way, str(board.task.folder), device, *cases]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PEER_S, check=True)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        # Skip the method and keep the others: time on a GPU machine is scarce.
        said = error.stderr if isinstance(error.stderr, str) else ""
        found.skipped[way] = f"it failed: {(said.strip().splitlines() or [str(error)])[-1][:300]}"
        return
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if reason := lines[0].get("skipped"):
        found.skipped[way] = reason
        return
    for kernel, line in zip(found.kernels, lines, strict=True):
        yield Taken(way=way, kernel=kernel, us=line["us"], seconds=line["seconds"])


if __name__ == "__main__":
    cli.main(command=main)
