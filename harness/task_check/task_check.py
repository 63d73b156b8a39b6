"""`/check`: a stranger's tasks are run, and their code shares a process with the referee: so all goes behind walls.

    harness.pyz check tasks.zip            reads the zip, puts up the outer walls, and keeps what is printed in there
      ┌ outer walls ─────────────────────────────────────────────────────────────────────────────────────────┐
      │ harness.pyz examples tasks.zip     the referee, with the task's reference.py: probes it, and judges  │
      │   ┌ the judge's walls ─────────┐   every example; a line for each                                    │
      │   │ the example, a player      │                                                                     │
      └───┴────────────────────────────┴─────────────────────────────────────────────────────────────────────┘

What the task's code can forge is the lines: what they say of a task is worth what the task is.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from harness.records.errors import JudgeError
from harness.sandbox.outer_sandbox import run_enclosed
from harness.task.examples import (
    GPU,
    MAX_BYTES,
    MAX_FOUND,
    MAX_MESSAGE,
    ExampleResult,
    Flaw,
    ProbesResult,
    Result,
    lay_out,
    read_tasks,
)
from harness.task.task import Board, load_task

_PYZ, _TASKS = "harness.pyz", "tasks.zip"


def check_behind_walls(tasks: bytes, harness: bytes, *, digest: str | None, minutes: float) -> bytes:
    """The lines of all that was probed and judged within the time.

    Args:
        harness: harness.pyz, which is this program.

    Raises:
        BundleError: `tasks` is no zip of tasks.
        JudgeError: the walls do not stand here, or nothing came out of them.
    """
    read_tasks(tasks, digest)
    files = {_PYZ: harness, _TASKS: tasks}
    done = run_enclosed(_command, files, seconds=60 * minutes, max_bytes=MAX_BYTES)
    # What was cut off in the middle of a line is no result.
    lines = done.output[: done.output.rfind(b"\n") + 1]
    if not lines:
        raise JudgeError(f"nothing was found out: {done.reason}")
    return lines


def _command(folder: Path) -> list[str]:
    return [sys.executable, "-I", str(folder / _PYZ), "examples", str(folder / _TASKS)]


def print_results(tasks: bytes) -> None:
    """Probe all references, judge all examples, and print a line for each; what else is printed here goes nowhere."""
    with os.fdopen(os.dup(1), "wb") as stream:
        os.dup2(2, 1)
        for result in check_tasks(tasks):
            stream.write(result.to_line())
            stream.flush()


def check_tasks(tasks: bytes) -> Iterator[Result]:
    """Probe the reference of every task, and judge its examples, one after the other."""
    names, files = read_tasks(tasks)
    with tempfile.TemporaryDirectory(prefix="pullrank-task-") as folder:
        tree = Path(folder).resolve()
        lay_out(files, tree)
        for name in names:
            board = load_task(tree / name).board(GPU)
            yield _probe(board)
            yield from _judge_examples(board)


def _probe(board: Board) -> ProbesResult:
    from harness.task_check.probes import find_flaws

    began = time.monotonic()
    found = tuple(
        Flaw(where=_shown(one.where), message=_shown(one.message), is_fault=one.is_fault) for one in find_flaws(board)
    )
    # The faults come first: of too many, the rest is left out.
    found = tuple(sorted(found, key=lambda flaw: not flaw.is_fault)[:MAX_FOUND])
    return ProbesResult(task=board.task.name, found=found, seconds=round(time.monotonic() - began, 1))


def _judge_examples(board: Board) -> Iterator[ExampleResult]:
    from harness.task_check.judge_examples import rehearse

    for one in rehearse(board):
        yield ExampleResult(
            task=board.task.name,
            example=one.example.path.relative_to(board.task.folder / "examples").as_posix(),
            got=one.got,
            message=_shown(one.message),
            seconds=round(one.seconds, 1),
        )


def _shown(text: str) -> str:
    """As a line can hold it: no half of a surrogate pair, and not without end."""
    return text.encode("utf-8", "replace").decode()[:MAX_MESSAGE]
