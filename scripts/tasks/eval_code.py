"""`pullrank task eval-code`: the runners, the code and the edition that judge a task.

where      the runners of each board, from .github/pullrank.yml
code       PullRank's modules, from the outside in, and the task's reference; or the task's own program
edition    the hash, per board, of everything that decides results
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from harness import __version__
from harness.records.provenance import harness_digest
from harness.task.task import METHOD, Board, Language, Task
from scripts.common.options import as_json_too
from scripts.competition.boards import offered
from scripts.competition.completion import task_names
from scripts.competition.repository import ROOT, require_task
from scripts.competition.runs_on import RunnerGroup, to_json
from scripts.competition.settings import SETTINGS, Gpu, load_settings
from scripts.tasks.show import handle, in_tasks

_MAIN = {"harness/judge.py": "the main path: a submission and a board in, a judgement out"}
_WALLS = {"harness/sandbox/sandbox.py": "the sandbox that the submission runs in"}
_REFEREE = {
    "harness/rules/game.py": "the order of play, until a case is not accepted",
    "harness/rules/examine.py": "builds and tests the submission",
    "harness/referee/referee.py": "one call: inputs, window, output, check",
    "harness/referee/host_memory.py": "on a CPU: passes inputs and outputs through the player's memory",
    "harness/referee/sealed.py": "on NVIDIA's GPUs: reveals inputs for one window, and times it on the GPU",
    "harness/referee/sampling.py": "how often to play each benchmark, and the times that follow from the samples",
    "harness/reference/reference.py": "calls the task's own code",
    "harness/reference/checker.py": "`compare`, which tasks use to check outputs",
    "harness/inside/player.py": "imports and calls the submission, in the sandbox",
}
_COMPILER = {"harness/task/compile.py": "compiles the submission: which compiler, which flags"}
_SCRIPT = {"harness/rules/script.py": "runs the task's program and parses its output as untrusted text"}


@click.command("eval-code")
@click.argument("name", shell_complete=task_names)
@in_tasks
@as_json_too
def eval_code(name: str, folder: Path, as_json: bool) -> None:
    """Show where and by which code a task is judged, and at which edition.

    Example: pullrank task eval-code vectoradd
    """
    task = require_task(name, folder)
    gpus = load_settings(ROOT / SETTINGS).gpus
    if as_json:
        click.echo(json.dumps(_facts(task, gpus), indent=1))
        return
    who = "PullRank's referee" if task.is_refereed else "the task's own program, in the sandbox"
    click.echo(f"{task.name} is judged by {who}: harness {__version__} ({harness_digest()[:12]}), method {METHOD}.")
    for board in offered(task, gpus).boards:
        click.echo(f"\n{board.gpu}: {_where(gpus[board.gpu])}\n  edition {board.edition}")
    if others := [gpu for gpu in task.gpus if gpu not in gpus]:
        click.echo(f"\nNo machine yet: {', '.join(others)}. Add them to {SETTINGS} under `gpus:`.")
    click.echo("\nThe code that decides, from the outside in:")
    programs = programs_of(task)
    width = max(map(len, programs))
    for path, what in programs.items():
        click.echo(f"  {path:<{width}}  {what}")
    click.echo(f"\n`pullrank task files {handle(task)} FILE` prints a file of the task.")


def programs_of(task: Task) -> dict[str, str]:
    """The files that decide, from the outside in, each with what it does."""
    compiler = _COMPILER if task.lang is Language.CU else {}
    own = {_place(task.sources[name]): what for name, what in _own(task).items()}
    return {**_MAIN, **compiler, **(_REFEREE if task.is_refereed else _SCRIPT), **_WALLS, **own}


def _own(task: Task) -> dict[str, str]:
    """The task's files that decide."""
    config = task.config
    programs = (config.sources or (config.main,)) if config else ()
    listed = [name for name in programs if name and name != task.submission_name]
    if not task.is_refereed:
        beside = [name for name in task.files if name not in listed]
        return dict.fromkeys(listed, "the task's own program") | dict.fromkeys(beside, "next to the program")
    own = {"reference.py": "the inputs, the right answer, and the tolerance"}
    if task.is_compiled:
        own |= {"adapter.py": "wraps the compiled library as custom_kernel"}
        own |= dict.fromkeys(listed, "compiled with every submission")
    return own


def _place(path: Path) -> str:
    """The path of a task's file: in this repository, or elsewhere."""
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else str(path)


def _facts(task: Task, gpus: Mapping[str, Gpu]) -> dict[str, Any]:
    return {
        "task": task.name,
        "evaluator": task.evaluator,
        "method": METHOD,
        "harness": harness_digest(),
        "boards": [_board_facts(board, gpus.get(board.gpu)) for board in task.boards],
        "code": programs_of(task),
    }


def _board_facts(board: Board, gpu: Gpu | None) -> dict[str, Any]:
    """`runs_on` is as in a workflow; None if no machine judges the board."""
    return {
        "gpu": board.gpu,
        "edition": board.edition,
        "runs_on": json.loads(to_json(gpu.runs_on)) if gpu else None,
        "device": list(gpu.device) if gpu else None,
    }


def _where(gpu: Gpu) -> str:
    """The machines that judge a board, according to the settings."""
    match gpu.runs_on:
        case RunnerGroup(group=group, labels=labels):
            where = f"a runner in the group {group}" + (f" with the labels {', '.join(labels)}" if labels else "")
        case str(label):
            where = f"a runner with the label {label}"
        case labels:
            where = f"a runner with the labels {', '.join(labels)}"
    return where + (f"; the device must be {' or '.join(gpu.device)}" if gpu.device else "")
