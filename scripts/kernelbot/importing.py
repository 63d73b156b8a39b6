"""`pullrank task import`: a task of KernelBot's, or a whole set of them, becomes folders of ours.

PATH ──kernelbot──▶ what is in it ──kernelbot_task──▶ the files of ours ──task_writing──▶ tasks/<name>/
                      └─ refused, with the reason ─────────┴──────────────────────┘   nothing half-written
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import click

from harness.records.errors import TaskError
from harness.task.faults import display
from harness.task.task import Task
from scripts.competition.repository import TASKS
from scripts.kernelbot.device_alias import ALIASES
from scripts.kernelbot.files import FoundTask
from scripts.kernelbot.source import Refusal, find_tasks
from scripts.kernelbot.task import Converted, convert
from scripts.tasks.show import until
from scripts.tasks.writing import fault_of_name, write_task


@click.command("import")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), default=TASKS, help="Folder of the tasks. Default: tasks/.")
@click.option("--name", help="What to call the task. Default: after its folder, or as its set says.")
@click.option("--gpu", "gpus", multiple=True, help="A board of the task; may stand several times. Default: its own.")
@click.option(
    "--device-alias",
    type=click.Choice(list(ALIASES)),
    help="Rewrite its code for another device, to try it; such a task never ranks.",
)
def import_(path: Path, out: Path, name: str | None, gpus: tuple[str, ...], device_alias: str | None) -> None:
    """Import a task or a set from KernelBot's layout: a folder, a zip, a set's file, or an old reference in one file.

    Nothing of it is run; `task check` does that.

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
    """A task that lies in its place now."""

    task: Task
    converted: Converted

    @property
    def lines(self) -> list[str]:
        """What there is to say about it."""
        why = self.converted.why_script
        judge = f"judged by its own program, since {why}" if why else "judged by the referee"
        along = self.converted.from_outside
        said = [f"{display(self.task.folder)}: {judge}"]
        said += [f"  came along: {', '.join(along)}"] if along else []
        return said + [f"  note: {note}" for note in (*self.converted.notes, *self._closed)]

    @property
    def _closed(self) -> list[str]:
        """Of a task of the past: that nobody is ranked on it."""
        deadline = self.task.deadline
        if not deadline or not self.task.ranks or datetime.now(UTC) < deadline:
            return []
        return [f"{until(deadline)}, so that nothing is ranked; for a new contest, change the deadline in its task.yml"]


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
    """All that is wrong, by the names that its sender knows."""
    reason = "\n".join(filter(None, faults))
    return Refusal(name=found.name, reason=reason.replace(display(found.root), found.shown or display(found.root)))
