"""`pullrank init TASK`: create a working folder without the network.

TASK/
  submission.py (.cu)    the template: correct and slow
  AGENTS.md              the rules, the loop, limits, exit codes
  task/                  statement, reference, cases, examples: to read, never submitted
"""

from __future__ import annotations

import shlex
import tempfile
from pathlib import Path

import click

from harness.records.errors import TaskError
from harness.task.bundle import lay_out
from harness.task.submission import read_directives
from harness.task.task import Task
from scripts.common.options import PATH
from scripts.common.terminal import say
from scripts.competition.completion import task_names
from scripts.competition.repository import ROOT, TASK_COPY, is_of_competition, require_task
from scripts.tasks.show import files_of, in_tasks, template_of


@click.command("init")
@click.argument("name", metavar="TASK", shell_complete=task_names)
@click.option("--language", help="The template's language, as in `task show`. Default: the first.")
@click.option("--out", type=PATH, help="The new folder. Default: the task's name.")
@in_tasks
def init(name: str, language: str | None, out: Path | None, folder: Path) -> None:
    """Create a working folder: a template, the task's files, and a page for agents.

    Example: pullrank init vectoradd --out work
    """
    task = require_task(name, folder)
    made = make_folder(task, out or Path(task.name), language)
    file = made / task.submission_name
    say(f"{made}/ is ready. Edit {file}, then {_what_then(file, task)}")


def _what_then(file: Path, task: Task) -> str:
    if is_of_competition(task):
        name = shlex.quote(file.as_posix())
        return f"`pullrank test {name}`, and `pullrank submit {name}` to be ranked"
    return f"`{shlex.join(['pullrank', 'test', file.as_posix(), '--task-dir', task.folder.as_posix()])}`"


def make_folder(task: Task, out: Path, language: str | None) -> Path:
    """Fill the new or empty folder completely, or leave it empty.

    Raises:
        TaskError: the folder has files, or the task has no such template.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise TaskError(f"{out} exists already; name a new folder with --out, or delete it first")
    contents = _contents(task, language)
    out.mkdir(parents=True, exist_ok=True)
    # Inside the folder: it may be the working directory or a mount, which cannot be replaced.
    with tempfile.TemporaryDirectory(prefix=".new-", dir=out) as workshop:
        lay_out(contents, Path(workshop))
        for made in list(Path(workshop).iterdir()):
            made.rename(out / made.name)
    return out


def _contents(task: Task, language: str | None) -> dict[str, bytes]:
    reading = {f"{TASK_COPY}/{where}": text for where, (_, text) in files_of(task).items()}
    start = _directed(template_of(task, language).read_text("utf-8"), task)
    return {**reading, "AGENTS.md": (ROOT / "AGENTS.md").read_bytes(), task.submission_name: start.encode()}


def _directed(template: str, task: Task) -> str:
    """Add a first line that names the task, so that later commands need no --task."""
    if read_directives(template, task.submission_name).leaderboard:
        return template
    mark = "//" if task.submission_name.endswith(".cu") else "#"
    return f"{mark}!POPCORN leaderboard {task.name}\n{template}"
