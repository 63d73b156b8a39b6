"""Create a task's folder completely or not at all: write it next to its place, load it, move it into place.

tasks/.new-…/<name>/   ──load_task──▶  raise its faults and leave nothing      or      tasks/<name>/
tasks/task.schema.json                 for completion in editors; the first line of a task.yml names it
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import click

from harness.records.errors import TaskError
from harness.task.bundle import lay_out
from harness.task.faults import display
from harness.task.task import Task, load_task, task_schema, why_no_name
from scripts.common.options import Decorated

SCHEMA = "task.schema.json"
SCHEMA_LINE = f"# yaml-language-server: $schema=../{SCHEMA}\n"

_DATES = click.DateTime(["%Y-%m-%d", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M:%S%z"])


def closing_at(default: str) -> Callable[[Decorated], Decorated]:
    """The option `--deadline`: a time in UTC that is yet to come, or None."""
    what = f"When its boards close, in UTC unless it names a zone; a day begins at 00:00. Default: {default}."
    return click.option("--deadline", type=_DATES, callback=_yet_to_come, help=what)


def _yet_to_come(_: click.Context, __: click.Parameter, deadline: datetime | None) -> datetime | None:
    if not deadline:
        return None
    deadline = deadline.replace(tzinfo=deadline.tzinfo or UTC).astimezone(UTC)
    if deadline <= datetime.now(UTC):
        raise TaskError(f"--deadline {deadline:%Y-%m-%d %H:%M} UTC is in the past")
    return deadline


def fault_of_name(tasks: Path, name: str) -> str:
    """Why a new task cannot have this name; "" if it can."""
    if fault := why_no_name(name):
        return fault
    if (tasks / name).exists():
        return f"{display(tasks / name)} exists already; choose another name, or delete it first"
    return ""


def write_task(tasks: Path, name: str, files: Mapping[str, bytes], shown: Path | None = None) -> Task:
    """Create a task from these files, whose names are relative to its folder.

    Args:
        shown: the folder that messages name.  Default: the task's place in `tasks`.

    Raises:
        TaskError: the name is unusable, or `load_task` finds faults; nothing is written then.
    """
    faults = [fault] if (fault := fault_of_name(tasks, name)) else []
    tasks.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".new-", dir=tasks) as workshop:
        folder = Path(workshop).resolve() / "new"  # the task's own name may be unusable
        try:
            lay_out(files, folder)
            load_task(folder)
        except OSError as error:
            inside = Path(str(error.filename)).relative_to(folder) if error.filename else Path()
            raise TaskError(f"{display((shown or tasks / name) / inside)}: {error.strerror}") from None
        except TaskError as error:
            faults.append(str(error).replace(display(folder), display(shown or tasks / name)))
        if faults:
            raise TaskError("\n".join(faults))
        if not (tasks / SCHEMA).exists():
            (tasks / SCHEMA).write_text(schema_text(), "utf-8")
        folder.rename(tasks / name)
    return load_task(tasks / name)


def schema_text() -> str:
    """The JSON Schema of task.yml, as `pullrank schema task` prints it."""
    return json.dumps(task_schema(), indent=2) + "\n"
