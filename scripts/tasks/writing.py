"""A new task's folder, whole or not at all: written beside, read as any task is, moved into place.

tasks/.new-…/<name>/   ──load_task──▶  its faults, and nothing is left      or      tasks/<name>/
tasks/task.schema.json                 what editors complete from; the first line of a task.yml names it
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

from harness.records.errors import TaskError
from harness.task.faults import display
from harness.task.task import Task, load_task, task_schema

SCHEMA = "task.schema.json"
SCHEMA_LINE = f"# yaml-language-server: $schema=../{SCHEMA}\n"

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


def fault_of_name(tasks: Path, name: str) -> str:
    """Why a new task cannot be called so; "" if it can."""
    if not _NAME.fullmatch(name):
        return f"'{name}' is no name for a task: lower case letters, digits, _ and - only, at most 64"
    if (tasks / name).exists():
        return f"{display(tasks / name)} is there already; choose another name, or take it away first"
    return ""


def require_new_name(tasks: Path, name: str) -> None:
    """Raises TaskError: it is no name for a task, or is taken."""
    if fault := fault_of_name(tasks, name):
        raise TaskError(fault)


def write_task(tasks: Path, name: str, files: Mapping[str, bytes], shown: Path | None = None) -> Task:
    """Make a task of these files, which are named relative to its folder.

    Args:
        shown: what messages call its folder.  Default: where it would lie.

    Raises:
        TaskError: its name, and all that `load_task` finds wrong with it; then nothing has been written.
    """
    faults = [fault] if (fault := fault_of_name(tasks, name)) else []
    tasks.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".new-", dir=tasks) as workshop:
        folder = Path(workshop).resolve() / "new"  # whatever its name is
        for where, content in files.items():
            path = folder / where
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        try:
            load_task(folder)
        except TaskError as error:
            faults.append(str(error).replace(display(folder), display(shown or tasks / name)))
        if faults:
            raise TaskError("\n".join(faults))
        write_schema(tasks)
        folder.rename(tasks / name)
    return load_task(tasks / name)


def write_schema(tasks: Path) -> None:
    """Put the schema where the first line of every task.yml looks for it, unless one is there."""
    if not (tasks / SCHEMA).exists():
        (tasks / SCHEMA).write_text(schema_text(), "utf-8")


def schema_text() -> str:
    """The JSON Schema of task.yml, as `pullrank schema task` prints it."""
    return json.dumps(task_schema(), indent=2) + "\n"
