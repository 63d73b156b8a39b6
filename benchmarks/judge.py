"""`make bench-judge`: measure the steps of a judging on this machine, for each task.

    once       starting Python, the command line and torch; the sandbox and a fresh player
    a task     one timed call and its parts; whole judgings of the task's anchor, for which a participant waits

Each step is measured alone and repeated; tables show medians.  All tasks take a quarter of an hour on two idle cores;
ARGS='--task sort' measures one, ARGS='--mode test' skips the long judgings.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.table import Table as RichTable

from harness.records.errors import TaskError
from harness.records.fields import Mode
from harness.records.stats import median
from harness.task.task import Board, Language, Task, load_tasks
from scripts import cli
from scripts.common.text import format_us
from scripts.competition.repository import TASKS, require_task

if TYPE_CHECKING:
    from harness.sandbox.sandbox import PlayerFiles

SecondsTaken = list[float]
Steps = dict[str, SecondsTaken]

_MODES = tuple(mode.value for mode in (Mode.TEST, Mode.BENCHMARK, Mode.RANKED))
_CALLS = 30


@click.command()
@click.option("--task", "names", multiple=True, help="A task, by name or folder (repeatable). Default: all.")
@click.option(
    "--mode",
    "modes",
    multiple=True,
    type=click.Choice(_MODES),
    help="A mode of whole judgings (repeatable). Default: all.",
)
@click.option("--repeat", default=1, show_default=True, help="Measurements of each step.")
@click.option("--json", "as_json", is_flag=True, help="Print all seconds as JSON, one line per task.")
def main(names: tuple[str, ...], modes: tuple[str, ...], repeat: int, as_json: bool) -> None:
    """Measure the steps of a judging on this machine, for the tasks that have a CPU board.

    Example: python -m benchmarks.judge --task sort --task vectoradd --repeat 5
    """
    boards = [task.board("CPU") for task in _tasks(names)]
    table = RichTable("task", title=f"Medians on this machine, n = {repeat}")
    once = _start_up(repeat) | _players(boards[0], repeat)
    if not as_json:
        _print_once(once)
    for board in boards:
        steps = _call(board, repeat) | _judgings(board, modes or _MODES, repeat)
        if as_json:
            click.echo(json.dumps({"task": board.task.name, **once, **steps}))
        else:
            _add_row(table, board.task.name, steps)
            click.echo(f"{board.task.name} measured", err=True)
    if not as_json:
        Console().print(table)


def _tasks(names: Sequence[str]) -> list[Task]:
    """The named tasks, else all Python tasks that the referee judges on a CPU."""
    found = [require_task(name) for name in names] or load_tasks(TASKS)
    fit = [task for task in found if task.is_refereed and task.lang is Language.PY and "CPU" in task.gpus]
    if unfit := [task.name for task in found if names and task not in fit]:
        raise TaskError(f"{', '.join(unfit)}: only Python tasks that the referee judges on a CPU board can be measured")
    return fit


def _print_once(steps: Steps) -> None:
    table = RichTable("step", "median", "range")
    for name, seconds in steps.items():
        table.add_row(name, _format(median(seconds)), f"{_format(min(seconds))} to {_format(max(seconds))}")
    Console().print(table)


def _add_row(table: RichTable, task: str, steps: Steps) -> None:
    for name in steps if len(table.columns) == 1 else ():
        table.add_column(name, justify="right")
    table.add_row(task, *(_format(median(seconds)) for seconds in steps.values()))


def _start_up(repeat: int) -> Steps:
    def run(code: str) -> None:
        subprocess.run([sys.executable, "-c", code], check=True)

    return {
        "start Python": _time(repeat, lambda: run("pass")),
        "import the command line": _time(repeat, lambda: run("import scripts.cli")),
        "import torch": _time(repeat, lambda: run("import torch")),
    }


def _players(board: Board, repeat: int) -> Steps:
    from harness.referee.referee import Referee
    from harness.reference.reference import Reference
    from harness.sandbox.sandbox import Sandbox

    steps: Steps = {"sandbox and warm parent": [], "a fresh player, loaded and killed": []}
    reference = Reference(board)
    for _ in range(repeat):
        start = time.perf_counter()
        with Sandbox("bubblewrap", memory_gib=board.limits.memory_gib) as sandbox:
            sandbox.warm_parent.await_warmth()
            steps["sandbox and warm parent"].append(time.perf_counter() - start)
            for _ in range(10):
                with _timed(steps["a fresh player, loaded and killed"]), sandbox.start_player(_null()) as player:
                    Referee(player, reference).load(10)
    return steps


def _call(board: Board, repeat: int) -> Steps:
    """Time one call of the first benchmark with a player that does nothing, and the referee's work around it."""
    from harness.referee.orders import Deadline
    from harness.referee.referee import Referee
    from harness.reference.reference import Reference
    from harness.sandbox.sandbox import Sandbox

    steps: Steps = {"a call": [], "null window": [], "inputs": [], "check": []}
    reference, case, deadline = Reference(board), board.benchmarks[0], Deadline.of(3600, 60)
    with Sandbox("bubblewrap", memory_gib=board.limits.memory_gib) as sandbox:
        sandbox.warm_parent.await_warmth()
        for _ in range(repeat):
            with sandbox.start_player(_null()) as player:
                table = Referee(player, reference)
                table.load(10)
                for seed in range(_CALLS):
                    with _timed(steps["a call"]):
                        window_us = table.call(case.params, seed, deadline, checked=False)
                    steps["null window"].append(window_us / 1e6)
                    with _timed(steps["inputs"]):
                        data = reference.generate(case.params, seed)
                    output = reference.compute(data)
                    with _timed(steps["check"]):
                        reference.check(data, output)
    return steps


def _null() -> PlayerFiles:
    from harness.referee.sampling import NULL_KERNEL
    from harness.sandbox.sandbox import PlayerFiles

    return PlayerFiles(name="null", files={"submission.py": NULL_KERNEL})


def _judgings(board: Board, modes: Sequence[str], repeat: int) -> Steps:
    from harness.judge import judge
    from harness.task.submission import read_submission

    assert board.task.anchor
    submission = read_submission(board.task.anchor, login="bench")
    return {
        mode: _time(repeat, lambda mode=mode: judge(board, submission, Mode(mode)))  # type: ignore[misc]
        for mode in modes
    }


def _time(repeat: int, step: Callable[[], object]) -> SecondsTaken:
    seconds: SecondsTaken = []
    for _ in range(repeat):
        with _timed(seconds):
            step()
    return seconds


@contextmanager
def _timed(seconds: SecondsTaken) -> Iterator[None]:
    start = time.perf_counter()
    yield
    seconds.append(time.perf_counter() - start)


def _format(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else format_us(seconds * 1e6)


if __name__ == "__main__":
    cli.main(command=main)
