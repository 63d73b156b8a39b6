"""The boards of a competition: those of its tasks' GPUs that have a machine.

    task.yml         gpus: [CPU, T4, H100, …]     where the task can be judged
    pullrank.yml     gpus: {CPU: …, H100: …}      the available machines          ─▶ offered: boards that are judged
    the ledger       judgements/<task>/<gpu>/     what was judged before          ─▶ shown: also boards of the past

A folder of tasks without settings is not a competition, and has all the boards that its tasks name.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from harness.task.task import Task
from scripts.competition.settings import SETTINGS, Gpu, Settings, load_settings
from scripts.ledger.ledger import Ledger

Machines = Collection[str] | None
"""The GPUs of `.github/pullrank.yml`; None if there are no settings."""


def offered(task: Task, machines: Machines) -> Task:
    """The task with the boards that have a machine."""
    return task if machines is None else task.on(machines)


def shown(task: Task, machines: Machines, ledger: Ledger) -> Task:
    """The task with the boards that have a machine, or have judgements from when they had one."""
    return task if machines is None else task.on({*machines, *ledger.gpus_of(task.name)})


def find_settings(tasks: Path) -> Settings | None:
    """The settings of the repository that contains a folder of tasks; None if there are none.

    Raises:
        SettingsError: they are invalid.
    """
    settings = tasks.resolve().parent / SETTINGS
    return load_settings(settings) if settings.is_file() else None


def find_machines(tasks: Path) -> Mapping[str, Gpu] | None:
    """The machines in those settings; raises like `find_settings`."""
    settings = find_settings(tasks)
    return settings.gpus if settings else None
