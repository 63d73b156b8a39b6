"""`/check`: a stranger's tasks are run, and their code shares a process with the referee: so all goes behind walls.

    harness.pyz check tasks.zip            reads the zip, puts up the outer walls, and keeps what is printed in there
      ┌ outer walls ─────────────────────────────────────────────────────────────────────────────────────────┐
      │ harness.pyz examples tasks.zip     the referee, with the task's reference.py: judges every example,  │
      │   ┌ the judge's walls ─────────┐   a line for each                                                   │
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

from harness.enclosure import run_enclosed
from harness.errors import JudgeError, PullRankError
from harness.examples import GPU, MAX_BYTES, MAX_MESSAGE, ExampleResult, lay_out, read_tasks
from harness.judgement import Mode
from harness.submission import read_submission
from harness.task import Board, Example, load_task
from harness.verdict import Verdict

_PYZ, _TASKS = "harness.pyz", "tasks.zip"


def check_behind_walls(tasks: bytes, harness: bytes, *, digest: str | None, minutes: float) -> bytes:
    """The lines of all examples that were judged within the time.

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
        raise JudgeError(f"no example was judged: {done.reason}")
    return lines


def _command(folder: Path) -> list[str]:
    return [sys.executable, "-I", str(folder / _PYZ), "examples", str(folder / _TASKS)]


def print_results(tasks: bytes) -> None:
    """Judge all examples, and print a line for each; whatever else is printed here goes nowhere."""
    with os.fdopen(os.dup(1), "wb") as stream:
        os.dup2(2, 1)
        for result in judge_examples(tasks):
            stream.write(result.to_line())
            stream.flush()


def judge_examples(tasks: bytes) -> Iterator[ExampleResult]:
    """Judge every example of every task, one after the other."""
    names, files = read_tasks(tasks)
    with tempfile.TemporaryDirectory(prefix="pullrank-task-") as folder:
        tree = Path(folder).resolve()
        lay_out(files, tree)
        for name in names:
            task = load_task(tree / name)
            for example in task.examples:
                yield _judge_example(task.board(GPU), example)


def _judge_example(board: Board, example: Example) -> ExampleResult:
    from harness.judge import judge

    began = time.monotonic()
    try:
        # A benchmark, since an example may be too slow on the benchmarks alone.
        judgement = judge(board, read_submission(example.path, login="example"), Mode.BENCHMARK)
        got, message = judgement.verdict, judgement.message
    except PullRankError as error:
        got, message = Verdict.JUDGING_ERROR, str(error)
    return ExampleResult(
        task=board.task.name,
        example=example.path.relative_to(board.task.folder / "examples").as_posix(),
        got=got,
        message=message.encode("utf-8", "replace").decode()[:MAX_MESSAGE],
        seconds=round(time.monotonic() - began, 1),
    )
