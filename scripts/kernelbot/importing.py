"""`pullrank task import`: convert a KernelBot task, or a set of them, to PullRank's layout.

PATH ──find_tasks──▶ the tasks in it ──convert──▶ the files of a PullRank task ──write_task──▶ tasks/<name>/
                          │                           └─ with --mend: completed ──────┐   completely or not at all
                          └─ refused, with the reason ────────────────────────────────┘
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
from scripts.common.options import PATH, in_sandbox, was_given
from scripts.common.text import plain
from scripts.competition.repository import TASKS, require_clone
from scripts.kernelbot.convert import Converted, convert
from scripts.kernelbot.device_alias import ALIASES
from scripts.kernelbot.files import FoundTask
from scripts.kernelbot.find_tasks import find_tasks
from scripts.kernelbot.mend import Mended, diff_of, mend
from scripts.tasks.show import until
from scripts.tasks.writing import closing_at, fault_of_name, write_task


@click.command("import")
@click.argument("path", type=PATH)
@click.option("--out", type=PATH, default=TASKS, help="Tasks folder. Default: tasks/.")
@click.option("--name", help="The task's new name. Default: its folder's name, or the name in its set.")
@click.option("--prefix", default="", help="Text before the name of each task, such as pmpp-, if names collide.")
@closing_at("that of its set, or its own")
@click.option("--gpu", "gpus", multiple=True, help="A board of the task (repeatable). Default: its own.")
@click.option(
    "--device-alias",
    type=click.Choice(ALIASES),
    help="Rewrite the task for another device, to try it; such a task never ranks.",
)
@click.option(
    "--mend", "mends", is_flag=True, help="Run the task's code to complete the task, and print what changed as a diff."
)
@in_sandbox
def import_(
    path: Path,
    out: Path,
    name: str | None,
    prefix: str,
    deadline: datetime | None,
    gpus: tuple[str, ...],
    device_alias: str | None,
    mends: bool,
    sandbox: str,
) -> None:
    """Import a task or a set from KernelBot's layout.

    PATH is a task's folder, a zip, a set's .yaml file, or an old single-file reference. Without --mend, the import runs
    none of the task's code; `task check` does. With --mend, it runs `task check` on each task, and writes what is
    missing: a check of shapes and dtypes, needs of examples, an anchor. It never changes PATH.

    Example: pullrank task import problems/pmpp.yaml --prefix pmpp- --mend
    """
    if device_alias and gpus:
        raise click.UsageError("--device-alias makes a task for the board CPU; it cannot be combined with --gpu.")
    if was_given("sandbox") and not mends:
        raise click.UsageError("--sandbox needs --mend: an import runs none of the task's code.")
    require_clone("task import", out)
    refused: list[str] = []
    imported = 0
    with find_tasks(path, name) as found:
        for one in found:
            try:
                wanted = _as_wanted(one, prefix, deadline, gpus)
                task, converted, mended = _import(
                    wanted, out, alias=device_alias is not None, sandbox=sandbox if mends else None
                )
            except TaskError as error:
                refused.append(f"{prefix}{one.name}: not imported\n{error}")
            else:
                imported += 1
                click.echo("\n".join(_words(task, converted, mended)))
    if imported:
        click.echo(f"{imported} imported; next: pullrank task check {display(out)}/*")
    if refused:
        raise TaskError("\n".join(refused))


def _as_wanted(found: FoundTask, prefix: str, deadline: datetime | None, gpus: tuple[str, ...]) -> FoundTask:
    """The same task with the name, deadline and GPUs of the call."""
    until = f"{deadline:%Y-%m-%dT%H:%M:%SZ}" if deadline else found.deadline
    return replace(found, name=prefix + found.name, deadline=until, gpus=gpus or found.gpus)


def _import(found: FoundTask, out: Path, *, alias: bool, sandbox: str | None) -> tuple[Task, Converted, Mended | None]:
    """Convert and write a task, completed if a sandbox is given.

    Raises:
        TaskError: all faults, with the paths as the user knows them.
    """
    if found.fault:
        raise TaskError(found.fault)
    fault_of_its_name = fault_of_name(out, found.name)
    try:
        converted = convert(found, alias=alias)
        if sandbox and fault_of_its_name:
            raise TaskError(fault_of_its_name)  # before the task's code runs
        mended = mend(found, converted, sandbox) if sandbox else None
        files = mended.files if mended else converted.files
        return write_task(out, found.name, files, shown=found.folder), converted, mended
    except TaskError as error:
        faults = filter(None, dict.fromkeys((fault_of_its_name, *str(error).split("\n"))))
        root = display(found.root)
        raise TaskError("\n".join(faults).replace(root, found.shown or root)) from None


def _words(task: Task, converted: Converted, mended: Mended | None) -> Iterator[str]:
    """The lines to print about an imported task."""
    why = converted.why_script
    yield f"{display(task.folder)}: judged by {f'its own program, since {why}' if why else 'the referee'}"
    if converted.from_outside:
        yield f"  copied from outside its folder: {', '.join(converted.from_outside)}"
    for note in (*converted.notes, *(mended.notes if mended else ())):
        yield f"  note: {plain(note)}"
    if task.deadline and task.ranks and task.deadline <= datetime.now(UTC):
        closed = until(task.deadline)
        yield f"  note: {closed}, so it ranks nothing; for a new contest, change the deadline in its task.yml"
    if mended:
        yield from diff_of(task.name, converted.files, mended.files)
