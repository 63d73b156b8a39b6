"""`pullrank task import`: convert a KernelBot task, or a set of them, to PullRank's layout.

PATH ──source──▶ the tasks in it ──task──▶ the files of a PullRank task ──writing──▶ tasks/<name>/
                    └─ refused, with the reason ─────────┴─────────────────────┘   completely or not at all
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import click

from harness.records.errors import TaskError
from harness.task.faults import display
from harness.task.task import Task
from scripts.common.options import PATH
from scripts.competition.repository import TASKS
from scripts.kernelbot.convert import Converted, convert
from scripts.kernelbot.device_alias import ALIASES
from scripts.kernelbot.files import FoundTask
from scripts.kernelbot.find_tasks import Refusal, find_tasks
from scripts.tasks.show import until
from scripts.tasks.writing import fault_of_name, write_task


@click.command("import")
@click.argument("path", type=PATH)
@click.option("--out", type=PATH, default=TASKS, help="Tasks folder. Default: tasks/.")
@click.option("--name", help="The task's new name. Default: its folder's name, or the name in its set.")
@click.option("--gpu", "gpus", multiple=True, help="A board of the task (repeatable). Default: its own.")
@click.option(
    "--device-alias",
    type=click.Choice(list(ALIASES)),
    help="Rewrite the task for another device, to try it; such a task never ranks.",
)
def import_(path: Path, out: Path, name: str | None, gpus: tuple[str, ...], device_alias: str | None) -> None:
    """Import a task or a set from KernelBot's layout.

    PATH is a task's folder, a zip, a set's .yaml file, or an old single-file reference. The import runs none of the
    task's code; `task check` does.

    Example: pullrank task import problems/pmpp.yaml --out tasks
    """
    refused: list[str] = []
    imported = 0
    with find_tasks(path, name) as found:
        for one in found:
            outcome = _import(one, out, gpus, alias=device_alias is not None)
            if isinstance(outcome, Refusal):
                refused.append(f"{outcome.name}: not imported\n{outcome.reason}")
            else:
                imported += 1
                click.echo("\n".join(outcome.lines))
    if imported:
        click.echo(f"{imported} imported; next: pullrank task check {display(out)}/*")
    if refused:
        raise TaskError("\n".join(refused))


@dataclass(frozen=True, kw_only=True)
class Imported:
    """A task that was imported."""

    task: Task
    converted: Converted

    @property
    def lines(self) -> list[str]:
        """The lines to print about it."""
        why = self.converted.why_script
        judge = f"judged by its own program, since {why}" if why else "judged by the referee"
        along = self.converted.from_outside
        said = [f"{display(self.task.folder)}: {judge}"]
        said += [f"  copied from outside its folder: {', '.join(along)}"] if along else []
        return said + [f"  note: {note}" for note in (*self.converted.notes, *self._closed)]

    @property
    def _closed(self) -> list[str]:
        """A note for a task whose deadline has passed."""
        deadline = self.task.deadline
        if not deadline or not self.task.ranks or datetime.now(UTC) < deadline:
            return []
        return [f"{until(deadline)}, so it ranks nothing; for a new contest, change the deadline in its task.yml"]


def _import(found: FoundTask | Refusal, out: Path, gpus: tuple[str, ...], *, alias: bool) -> Imported | Refusal:
    if isinstance(found, Refusal):
        return found
    try:
        converted = convert(replace(found, gpus=gpus or found.gpus), alias=alias)
    except TaskError as error:
        return _refusal(found, fault_of_name(out, found.name), str(error))
    try:
        task = write_task(out, found.name, converted.files, shown=found.folder)
    except TaskError as error:
        return _refusal(found, str(error))
    return Imported(task=task, converted=converted)


def _refusal(found: FoundTask, *faults: str) -> Refusal:
    """All faults, with the paths as the user knows them."""
    reason = "\n".join(filter(None, faults))
    return Refusal(name=found.name, reason=reason.replace(display(found.root), found.shown or display(found.root)))
