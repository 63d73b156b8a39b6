"""`pullrank task archive`: close the boards of tasks and keep them on the site, or delete a task.

archive           sets `deadline:` in each task.yml to now: ranking stops, testing still works
archive --purge   deletes the task's folder, its submissions and its facts in the ledger: see `purge`
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import click
import yaml

from harness.records.errors import TaskError
from harness.task.faults import display
from harness.task.task import Task, load_task
from scripts.common.options import PATH
from scripts.competition.completion import task_names
from scripts.competition.repository import require_clone, require_task
from scripts.tasks.purge import purge_task
from scripts.tasks.show import in_tasks

_BEFORE_CASES = ("gpus", "lang", "title")
"""A new deadline goes after the first of these keys that the file has."""


@click.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=task_names)
@click.option("--purge", is_flag=True, help="Delete the task and its submissions. Asks for the task's name.")
@click.option("--confirm", metavar="NAME", help="With --purge: the task's name, instead of the prompt.")
@click.option("--ledger", type=PATH, help="With --purge: ledger folder. Default: the branch on GitHub.")
@click.option(
    "--repo", metavar="OWNER/NAME", help="With --purge: the repository. Default: the one that this clone came from."
)
@in_tasks
def archive(
    names: Sequence[str], purge: bool, confirm: str | None, ledger: Path | None, repo: str | None, folder: Path
) -> None:
    """Close the boards of tasks now and keep their history.

    --purge deletes a task, its submissions and its facts in the ledger; only an admin of the repository may do that.

    Example: pullrank task archive vectoradd softmax
    """
    require_clone("task archive", folder)
    tasks = [require_task(name, folder) for name in dict.fromkeys(names)]
    if purge:
        if len(tasks) > 1:
            raise TaskError("--purge deletes one task at a time")
        (task,) = tasks
        if confirm is None and sys.stdin.isatty():
            confirm = click.prompt(
                f"This deletes {task.name}, all submissions to it and all its results. Type its name"
            )
        purge_task(task, confirm or "", ledger, repo)
        return
    if ledger or repo or confirm:
        raise TaskError("--ledger, --repo and --confirm are for --purge; closing a board keeps its judgements")
    now = datetime.now(UTC).replace(microsecond=0)
    has_changes = False
    for task in tasks:
        if task.deadline and task.deadline <= now:
            click.echo(f"{task.name} has been closed since {task.deadline:%Y-%m-%d %H:%M} UTC; nothing was changed.")
            continue
        close(task, now)
        has_changes = True
        click.echo(f"{display(task.folder / 'task.yml')}: closed at {now:%Y-%m-%d %H:%M} UTC. Rows and records stay.")
    if has_changes:
        click.echo("This takes effect once it is on the default branch.")


def close(task: Task, now: datetime) -> None:
    """Write the deadline and leave every other line of task.yml as it is.

    Raises TaskError if it cannot be inserted safely; the file is unchanged then.
    """
    path = task.folder / "task.yml"
    before = path.read_bytes()
    path.write_bytes(with_deadline(before.decode("utf-8-sig"), now).encode())
    try:
        after = load_task(task.folder)
        if after.deadline != now or [one.edition for one in after.boards] != [one.edition for one in task.boards]:
            raise TaskError("inserting it automatically would change more than the deadline")
    except TaskError as error:
        path.write_bytes(before)
        line = f"deadline: {now:%Y-%m-%dT%H:%M:%SZ}"
        raise TaskError(f"{display(path)}: insert this line by hand: {line}\n({error})") from None


def with_deadline(text: str, now: datetime) -> str:
    """The text of a task.yml with this deadline, which replaces the old one or follows `gpus:`."""
    line = f"deadline: {now:%Y-%m-%dT%H:%M:%SZ}\n"
    lines = (text if text.endswith("\n") else f"{text}\n").splitlines(keepends=True)
    spans = _spans(text)
    if "deadline" in spans:
        first, end = spans["deadline"]
        return "".join((*lines[:first], line, *lines[end:]))
    end = next((spans[key][1] for key in _BEFORE_CASES if key in spans), 0)
    # The first line may be the comment that names the schema; it must stay first.
    end = end or next((number for number, one in enumerate(lines) if not one.startswith("#")), 0)
    return "".join((*lines[:end], line, *lines[end:]))


def _spans(text: str) -> dict[str, tuple[int, int]]:
    """The first line of each top-level key, and the line after its last."""
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    pairs = node.value if isinstance(node, yaml.MappingNode) else ()
    return {key.value: (key.start_mark.line, value.end_mark.line + (value.end_mark.column > 0)) for key, value in pairs}
