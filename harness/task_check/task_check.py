"""`/check`: judge the examples of untrusted tasks in an outer sandbox, because task code runs in the referee's process.

    harness.pyz check tasks.zip            reads the zip, starts the outer sandbox, and captures its output
      ┌ outer sandbox ───────────────────────────────────────────────────────────────────────────────────────┐
      │ harness.pyz examples tasks.zip     the referee, with the task's reference.py: probes it, and judges  │
      │   ┌ inner sandbox ─────────────┐   every example; prints a line for each                             │
      │   │ the example, a player      │                                                                     │
      └───┴────────────────────────────┴─────────────────────────────────────────────────────────────────────┘

A task's code can forge the lines, so they are only as trustworthy as the task.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from harness.records.errors import JudgeError
from harness.sandbox.outer_sandbox import run_enclosed
from harness.task.bundle import lay_out
from harness.task.examples import (
    GPU,
    MAX_BYTES,
    MAX_FOUND,
    MAX_MESSAGE,
    ExampleResult,
    Flaw,
    ProbesResult,
    Result,
    read_tasks,
)
from harness.task.task import Board, load_task

_PYZ, _TASKS = "harness.pyz", "tasks.zip"


def check_in_outer_sandbox(tasks: bytes, harness: bytes, *, digest: str | None, minutes: float) -> bytes:
    """Probe and judge in an outer sandbox; return the result lines written within the time.

    Args:
        harness: harness.pyz, which is this program.

    Raises:
        BundleError: `tasks` is not a valid zip of tasks.
        JudgeError: the sandbox cannot be started, or produced no results.
    """
    read_tasks(tasks, digest)
    files = {_PYZ: harness, _TASKS: tasks}
    done = run_enclosed(_command, files, seconds=60 * minutes, max_bytes=MAX_BYTES)
    # Drop an incomplete last line.
    lines = done.output[: done.output.rfind(b"\n") + 1]
    if not lines:
        raise JudgeError(f"the check produced no results: {done.reason}")
    return lines


def _command(folder: Path) -> list[str]:
    return [sys.executable, "-I", str(folder / _PYZ), "examples", str(folder / _TASKS)]


def print_results(tasks: bytes) -> None:
    """Probe all references, judge all examples, and print a line for each.

    Everything else that is printed to stdout goes to stderr.
    """
    with os.fdopen(os.dup(1), "wb") as stream:
        os.dup2(2, 1)
        for result in check_tasks(tasks):
            stream.write(result.to_line())
            stream.flush()


def check_tasks(tasks: bytes) -> Iterator[Result]:
    """For each task, probe its reference, then judge its examples."""
    names, files = read_tasks(tasks)
    with tempfile.TemporaryDirectory(prefix="pullrank-task-") as folder:
        tree = Path(folder).resolve()
        lay_out(files, tree)
        for name in names:
            board = replace(load_task(tree / name), shown=f"tasks/{name}").board(GPU)
            yield _probe(board)
            yield from _judge_examples(board)


def _probe(board: Board) -> ProbesResult:
    from harness.task_check.probe_reference import find_flaws

    began = time.monotonic()
    found = tuple(
        Flaw(where=_shown(one.where), message=_shown(one.message), is_fault=one.is_fault) for one in find_flaws(board)
    )
    # Faults first, so that truncation drops warnings.
    found = tuple(sorted(found, key=lambda flaw: not flaw.is_fault)[:MAX_FOUND])
    return ProbesResult(task=board.task.name, found=found, seconds=round(time.monotonic() - began, 1))


def _judge_examples(board: Board) -> Iterator[ExampleResult]:
    from harness.task_check.judge_examples import judge_examples

    for one in judge_examples(board):
        yield ExampleResult(
            task=board.task.name,
            example=one.example.place,
            got=one.got,
            message=_shown(one.message),
            seconds=round(one.seconds, 1),
        )


def _shown(text: str) -> str:
    """Make text fit for a line: no lone surrogates, limited length."""
    return text.encode("utf-8", "replace").decode()[:MAX_MESSAGE]
