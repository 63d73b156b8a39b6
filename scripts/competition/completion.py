"""Shell completion of tasks, GPUs and logins, from the names of files and folders.

Nothing here may fail, use the network, or be slow: a user is typing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click
import yaml

from scripts.competition.repository import LEDGER, ROOT, TASKS
from scripts.competition.settings import SETTINGS

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
"""Names with any other character are not offered to the shell."""


def task_names(context: click.Context, _: click.Parameter, begin: str) -> list[str]:
    """The tasks in --tasks, or in this repository."""
    return _offered((file.parent.name for file in _files(_tasks(context), "*/task.yml")), begin)


def gpu_names(context: click.Context, _: click.Parameter, begin: str) -> list[str]:
    """The boards of the task on the command line, or of all tasks."""
    # While the last option awaits its value, click has not assigned the arguments yet.
    said = {context.params.get("task"), *context.args}
    files = _files(_tasks(context), "*/task.yml")
    named = [file for file in files if file.parent.name in said]
    return _offered((gpu for file in named or files for gpu in _gpus_of(file)), begin)


def judged_gpu_names(context: click.Context, parameter: click.Parameter, begin: str) -> list[str]:
    """The boards of `gpu_names` that have a machine, if there are settings next to the tasks."""
    names = gpu_names(context, parameter, begin)
    machines = _read(_tasks(context).parent / SETTINGS).get("gpus")
    return [name for name in names if name in machines] if isinstance(machines, dict) else names


def logins(context: click.Context, _: click.Parameter, begin: str) -> list[str]:
    """The authors of merged files or of judgements in the ledger."""
    ledger = context.params.get("ledger") or LEDGER
    merged = _files(ROOT / "submissions", "*/*")
    judged = _files(Path(ledger) / "judgements", "*/*/*")
    return _offered((path.name for path in (*merged, *judged) if path.is_dir()), begin)


def _tasks(context: click.Context) -> Path:
    # Commands such as `board` call it `tasks`; the `task` commands call it `folder`.
    return Path(context.params.get("tasks") or context.params.get("folder") or TASKS)


def _files(folder: Path, pattern: str) -> list[Path]:
    try:
        return list(folder.glob(pattern))
    except OSError:
        return []


def _gpus_of(task_yml: Path) -> Iterator[str]:
    gpus = _read(task_yml).get("gpus")
    yield from (gpu for gpu in gpus if isinstance(gpu, str)) if isinstance(gpus, list) else ()


def _read(path: Path) -> dict[Any, Any]:
    try:
        found: Any = yaml.safe_load(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError, yaml.YAMLError):
        return {}
    return found if isinstance(found, dict) else {}


def _offered(names: Iterable[str], begin: str) -> list[str]:
    """Matching names, sorted, without duplicates; matching ignores case."""
    fitting = {name for name in names if _NAME.fullmatch(name) and name.lower().startswith(begin.lower())}
    return sorted(fitting)
