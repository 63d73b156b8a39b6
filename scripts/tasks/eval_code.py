"""`pullrank task eval-code`: where, by what and at which edition a task is judged.

where      the runners of each board, by .github/pullrank.yml
by what    our modules, from the outside in, and the task's reference; or the program that the task brings
edition    of each board, over all that decides results
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from harness import __version__
from harness.records.provenance import harness_digest
from harness.task.faults import Faults
from harness.task.task import METHOD, Board, Language, Task
from harness.task.yaml_file import read_yaml
from scripts.competition.boards import offered
from scripts.competition.completion import task_names
from scripts.competition.repository import ROOT, require_task
from scripts.competition.runs_on import RunnerGroup, to_json
from scripts.competition.settings import SETTINGS, Gpu, load_settings
from scripts.tasks.show import as_json_too, in_tasks

_MAIN = {"harness/judge.py": "the main path: a submission and a board in, a judgement out"}
_WALLS = {"harness/sandbox/sandbox.py": "the walls that a submission runs behind"}
_REFEREE = {
    "harness/rules/game.py": "what one submission plays, until something is not accepted",
    "harness/referee/referee.py": "one call: deal inputs, open the window, take the output, check it",
    "harness/referee/sampling.py": "when to play what, how often, and what the times are worth",
    "harness/referee/reference.py": "what it asks of the task's own code",
    "harness/referee/checker.py": "`compare`, with which tasks tell right from wrong",
    "harness/inside/player.py": "the submission's side, which imports it",
}
_COMPILER = {"harness/task/compile.py": "how a submission is compiled: by what, with which flags"}
_SCRIPT = {"harness/rules/script.py": "runs the task's program, and reads what it says as hostile text"}


@click.command("eval-code")
@click.argument("name", shell_complete=task_names)
@in_tasks
@as_json_too
def eval_code(name: str, folder: Path, as_json: bool) -> None:
    """Say where and by what a task is judged, and at which edition.

    Example: pullrank task eval-code vectoradd
    """
    task = require_task(name, folder)
    gpus = load_settings(ROOT / SETTINGS).gpus
    if as_json:
        click.echo(json.dumps(_facts(task, gpus), indent=1))
        return
    who = "PullRank's referee" if task.is_refereed else "the task's own program, inside the walls"
    click.echo(f"{task.name} is judged by {who}: harness {__version__} ({harness_digest()[:12]}), method {METHOD}.")
    for board in offered(task, gpus).boards:
        click.echo(f"\n{board.gpu}: {_where(gpus[board.gpu])}\n  edition {board.edition}")
    if others := [gpu for gpu in task.gpus if gpu not in gpus]:
        click.echo(f"\nNo machine yet: {', '.join(others)}. {SETTINGS} names none of them under `gpus:`.")
    click.echo("\nWhat decides, from the outside in:")
    programs = programs_of(task)
    width = max(map(len, programs))
    for path, what in programs.items():
        click.echo(f"  {path:<{width}}  {what}")


def programs_of(task: Task) -> dict[str, str]:
    """The files that decide, from the outside in, each with what it does; those of a task by where they lie."""
    compiler = _COMPILER if task.lang is Language.CU else {}
    own = {_place(task, name): what for name, what in _own(task).items()}
    return {**_MAIN, **compiler, **(_REFEREE if task.is_refereed else _SCRIPT), **_WALLS, **own}


def _own(task: Task) -> dict[str, str]:
    """The task's files that decide."""
    config = task.config
    programs = (config.sources or (config.main,)) if config else ()
    listed = [name for name in programs if name and name != task.submission_name]
    if not task.is_refereed:
        return dict.fromkeys(listed, "the task's own program")
    own = {"reference.py": "the inputs, the right answer, and what counts as right"}
    if task.is_compiled:
        own |= {"adapter.py": "makes custom_kernel of what was compiled"}
        own |= dict.fromkeys(listed, "compiled with every submission")
    return own


def _place(task: Task, name: str) -> str:
    """Where a file of a task lies, which may share it with others."""
    path = task.folder / "task.yml"
    listed = (read_yaml(path, Faults(path)) or {}).get("files") or []
    source = next((entry["source"] for entry in listed if entry["name"] == name), name)
    return os.path.normpath(f"tasks/{task.name}/{source}")


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
    """`runs_on` as a workflow writes it; None where no machine judges the board."""
    return {
        "gpu": board.gpu,
        "edition": board.edition,
        "runs_on": json.loads(to_json(gpu.runs_on)) if gpu else None,
        "device": list(gpu.device) if gpu else None,
    }


def _where(gpu: Gpu) -> str:
    """Which machines judge a board, as the settings tell."""
    match gpu.runs_on:
        case RunnerGroup(group=group, labels=labels):
            where = f"a runner of the group {group}" + (f" with the labels {', '.join(labels)}" if labels else "")
        case str(label):
            where = f"a runner with the label {label}"
        case labels:
            where = f"a runner with the labels {', '.join(labels)}"
    return where + (f"; the device must be {' or '.join(gpu.device)}" if gpu.device else "")
