"""`pullrank task import`: convert a KernelBot task, or a set of them, to PullRank's layout.

PATH ──find_tasks──▶ the tasks in it ──convert──▶ the files of a PullRank task ──write_task──▶ tasks/<name>/
                          └─ refused, with the reason ──────────────┴─────────────────┘   completely or not at all
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import click

from harness.records.errors import TaskError
from harness.task.faults import display
from harness.task.task import Task
from scripts.common.options import PATH
from scripts.competition.repository import TASKS, require_clone
from scripts.kernelbot.convert import Converted, convert
from scripts.kernelbot.device_alias import ALIASES
from scripts.kernelbot.files import FoundTask
from scripts.kernelbot.find_tasks import find_tasks
from scripts.tasks.show import until
from scripts.tasks.writing import fault_of_name, write_task


@click.command("import")
@click.argument("path", type=PATH)
@click.option("--out", type=PATH, default=TASKS, help="Tasks folder. Default: tasks/.")
@click.option("--name", help="The task's new name. Default: its folder's name, or the name in its set.")
@click.option("--gpu", "gpus", multiple=True, help="A board of the task (repeatable). Default: its own.")
@click.option(
    "--device-alias",
    type=click.Choice(ALIASES),
    help="Rewrite the task for another device, to try it; such a task never ranks.",
)
def import_(path: Path, out: Path, name: str | None, gpus: tuple[str, ...], device_alias: str | None) -> None:
    """Import a task or a set from KernelBot's layout.

    PATH is a task's folder, a zip, a set's .yaml file, or an old single-file reference. The import runs none of the
    task's code; `task check` does.

    Example: pullrank task import problems/pmpp.yaml --out tasks
    """
    require_clone("task import", out)
    refused: list[str] = []
    imported = 0
    with find_tasks(path, name) as found:
        for one in found:
            try:
                task, converted = _import(one, out, gpus, alias=device_alias is not None)
            except TaskError as error:
                refused.append(f"{one.name}: not imported\n{error}")
            else:
                imported += 1
                click.echo("\n".join(_words(task, converted)))
    if imported:
        click.echo(f"{imported} imported; next: pullrank task check {display(out)}/*")
    if refused:
        raise TaskError("\n".join(refused))


def _import(found: FoundTask, out: Path, gpus: tuple[str, ...], *, alias: bool) -> tuple[Task, Converted]:
    """Convert and write a task.  Raises TaskError: all faults, with the paths as the user knows them."""
    if found.fault:
        raise TaskError(found.fault)
    fault_of_its_name = fault_of_name(out, found.name)
    try:
        converted = convert(replace(found, gpus=gpus or found.gpus), alias=alias)
        return write_task(out, found.name, converted.files, shown=found.folder), converted
    except TaskError as error:
        faults = filter(None, dict.fromkeys((fault_of_its_name, *str(error).split("\n"))))
        root = display(found.root)
        raise TaskError("\n".join(faults).replace(root, found.shown or root)) from None


def _words(task: Task, converted: Converted) -> Iterator[str]:
    """The lines to print about an imported task."""
    why = converted.why_script
    yield f"{display(task.folder)}: judged by {f'its own program, since {why}' if why else 'the referee'}"
    if converted.from_outside:
        yield f"  copied from outside its folder: {', '.join(converted.from_outside)}"
    for note in converted.notes:
        yield f"  note: {note}"
    if task.deadline and task.ranks and task.deadline <= datetime.now(UTC):
        closed = until(task.deadline)
        yield f"  note: {closed}, so it ranks nothing; for a new contest, change the deadline in its task.yml"
