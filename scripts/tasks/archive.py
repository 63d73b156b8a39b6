"""`pullrank task archive`: the end of a task's boards.  Closed, they stay to be looked at; purged, they are gone.

archive           `deadline:` in task.yml becomes now: nothing is ranked any more, testing still works
archive --purge   the folders of task and submissions are deleted, and the ledger's facts of it: see `purge`
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path

import click
import yaml

from harness.records.errors import TaskError
from harness.task.faults import display
from harness.task.task import Task, load_task
from scripts.competition.completion import task_names
from scripts.competition.repository import require_task
from scripts.tasks.purge import purge_task
from scripts.tasks.show import in_tasks

_BEFORE_CASES = ("gpus", "lang", "title")
"""Where a deadline is put that was not there: behind the first of these keys."""


@click.command()
@click.argument("name", shell_complete=task_names)
@click.option("--purge", is_flag=True, help="Delete the task and its submissions, for good. Asks for the task's name.")
@click.option("--confirm", metavar="NAME", help="The name, typed here, for --purge where nobody can be asked.")
@click.option(
    "--ledger", type=click.Path(path_type=Path), help="With --purge: a folder. Default: the branch on GitHub."
)
@click.option("--repo", metavar="OWNER/NAME", help="With --purge: the repository, if not the one of this clone.")
@in_tasks
def archive(name: str, purge: bool, confirm: str | None, ledger: Path | None, repo: str | None, folder: Path) -> None:
    """Close a task's boards now, and keep their history.

    --purge deletes the task, its submissions and the ledger's facts of it, and is for the repository's owner alone.

    Example: pullrank task archive vectoradd
    """
    task = require_task(name, folder)
    if purge:
        purge_task(task, _typed(task, confirm), ledger, repo)
        return
    if ledger or repo or confirm:
        raise TaskError("--ledger, --repo and --confirm belong to --purge; a closed board keeps its judgements")
    now = datetime.now(UTC).replace(microsecond=0)
    if task.deadline and task.deadline <= now:
        click.echo(f"{task.name} is closed since {task.deadline:%Y-%m-%d %H:%M} UTC; nothing was changed.")
        return
    close(task, now)
    click.echo(f"{display(task.folder / 'task.yml')}: closed at {now:%Y-%m-%d %H:%M} UTC. Rows and records stay.")
    click.echo("It takes effect when this change is on the default branch.")


def close(task: Task, now: datetime) -> None:
    """Write the deadline, and leave every other line of task.yml as it is.

    Raises:
        TaskError: its text is such that no line can be put in safely; then nothing has changed.
    """
    path = task.folder / "task.yml"
    before = path.read_bytes()
    path.write_text(with_deadline(before.decode("utf-8-sig"), now), "utf-8")
    try:
        after = load_task(task.folder)
        if after.deadline != now or [one.edition for one in after.boards] != [one.edition for one in task.boards]:
            raise TaskError("the change would not do what it should")
    except TaskError as error:
        path.write_bytes(before)
        line = f"deadline: {now:%Y-%m-%dT%H:%M:%SZ}"
        raise TaskError(f"{display(path)}: put this line in by hand: {line}\n({error})") from None


def with_deadline(text: str, now: datetime) -> str:
    """The text of a task.yml with this deadline: in its place, or behind the boards that it closes."""
    line = f"deadline: {now:%Y-%m-%dT%H:%M:%SZ}\n"
    lines = text.splitlines(keepends=True)
    spans = _spans(text)
    if "deadline" in spans:
        first, end = spans["deadline"]
        return "".join((*lines[:first], line, *lines[end:]))
    end = next((spans[key][1] for key in _BEFORE_CASES if key in spans), 0)
    # A first line of comment names the schema, and stays first.
    end = end or next((number for number, one in enumerate(lines) if not one.startswith("#")), 0)
    return "".join((*lines[:end], line, *lines[end:]))


def _spans(text: str) -> dict[str, tuple[int, int]]:
    """The lines of each top-level key, from the first to behind the last."""
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    pairs = node.value if isinstance(node, yaml.MappingNode) else ()
    return {key.value: (key.start_mark.line, value.end_mark.line + (value.end_mark.column > 0)) for key, value in pairs}


def _typed(task: Task, confirm: str | None) -> str:
    if confirm is None and sys.stdin.isatty():
        confirm = click.prompt(f"This deletes {task.name}, all submissions to it and all its results. Type its name")
    return confirm or ""
