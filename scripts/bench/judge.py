"""`make bench-judge`: where the seconds of a judging go, on this machine.

Every step is taken alone and repeated; the table gives the median with the range.  The last rows are
whole judgings of a task's anchor by itself, which is what a participant waits for.  `ARGS='tasks/*'` does so for every
task.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table as RichTable

from harness.fields import Mode
from harness.stats import median
from harness.task import Board, load_task
from scripts import cli
from scripts.text import format_us

Seconds = list[float]


@click.command()
@click.argument("tasks", nargs=-1, type=click.Path(path_type=Path))
@click.option("--repeat", default=5, show_default=True, help="How often each step is taken.")
@click.option("--json", "as_json", is_flag=True, help="Print the seconds as JSON.")
def main(tasks: tuple[Path, ...], repeat: int, as_json: bool) -> None:
    """Measure the steps of a judging on this machine, of the tasks in some folders; default: tasks/vectoradd.

    Example: python -m scripts.bench.judge tasks/*/ --repeat 1
    """
    folders = [task for task in tasks if (task / "task.yml").is_file()] if tasks else [Path("tasks/vectoradd")]
    start_up = _start_up(repeat)
    for folder in folders:
        board = load_task(folder).board("CPU")
        steps = {**start_up, **_players(board, repeat), **_judgings(board, repeat)}
        if as_json:
            click.echo(json.dumps({"task": folder.name, **steps}))
        else:
            _print(folder.name, steps, repeat)


def _print(task: str, steps: dict[str, Seconds], repeat: int) -> None:
    table = RichTable("step", "median", "range", title=f"{task} on this machine, {repeat} times each")
    for name, seconds in steps.items():
        table.add_row(name, _format(median(seconds)), f"{_format(min(seconds))} to {_format(max(seconds))}")
    Console().print(table)


def _start_up(repeat: int) -> dict[str, Seconds]:
    def run(code: str) -> None:
        subprocess.run([sys.executable, "-c", code], check=True)

    return {
        "python starts": _time(repeat, lambda: run("pass")),
        "the command line is loaded": _time(repeat, lambda: run("import scripts.cli")),
        "torch is imported": _time(repeat, lambda: run("import torch")),
    }


def _players(board: Board, repeat: int) -> dict[str, Seconds]:
    from harness.clock import NULL_KERNEL
    from harness.referee import Deadline, Table
    from harness.reference import Reference
    from harness.sandbox import Entry, Sandbox

    steps: dict[str, Seconds] = {"walls and warm parent": [], "a fresh player, loaded and killed": []}
    reference = Reference(board)
    case = board.benchmarks[0]
    entry = Entry(name="null", files={"submission.py": NULL_KERNEL})
    deadline = Deadline.of(3600, 60)
    for _ in range(repeat):
        start = time.perf_counter()
        with Sandbox("bubblewrap", memory_gib=board.limits.memory_gib) as sandbox:
            sandbox.await_warmth()
            steps["walls and warm parent"].append(time.perf_counter() - start)
            for _ in range(10):
                with _timed(steps["a fresh player, loaded and killed"]), sandbox.seat(entry) as player:
                    Table(player, reference).load(10)
            with sandbox.seat(entry) as player:
                table = Table(player, reference)
                table.load(10)
                for seed in range(30):
                    with _timed(steps.setdefault("one timed call, all in all", [])):
                        window_us = table.call(case.params, seed, deadline, checked=False)
                    steps.setdefault("  of it the window of a null kernel", []).append(window_us / 1e6)
                    with _timed(steps.setdefault("  of it the task's generate_input", [])):
                        data = reference.generate(case.params, seed)
                    output = reference.compute(data)
                    with _timed(steps.setdefault("the task's check (with its reference)", [])):
                        reference.check(data, output)
    return steps


def _judgings(board: Board, repeat: int) -> dict[str, Seconds]:
    from harness.judge import judge
    from harness.submission import read_submission

    assert board.task.anchor
    submission = read_submission(board.task.anchor, login="bench")
    return {
        f"a whole judging, mode {mode}": _time(repeat, lambda mode=mode: judge(board, submission, mode))  # type: ignore[misc]
        for mode in (Mode.TEST, Mode.BENCHMARK, Mode.RANKED)
    }


def _time(repeat: int, step: Callable[[], object]) -> Seconds:
    seconds: Seconds = []
    for _ in range(repeat):
        with _timed(seconds):
            step()
    return seconds


@contextmanager
def _timed(seconds: Seconds) -> Iterator[None]:
    start = time.perf_counter()
    yield
    seconds.append(time.perf_counter() - start)


def _format(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else format_us(seconds * 1e6)


if __name__ == "__main__":
    cli.main(command=main)
