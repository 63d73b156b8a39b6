"""Which boards a competition has: of all that its tasks name, those that a machine judges.

    task.yml         gpus: [CPU, T4, H100, …]     where a task can be judged
    pullrank.yml     gpus: {CPU: …, H100: …}      the machines that are there     ─▶ offered: what is judged
    the ledger       judgements/<task>/<gpu>/     what machines judged before     ─▶ shown: that stays to be seen

A folder of tasks without settings beside it is no competition, and has all the boards that its tasks name.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from harness.task.task import Task
from scripts.competition.settings import SETTINGS, Settings, load_settings
from scripts.ledger.ledger import Ledger

Machines = Collection[str] | None
"""The GPUs of `.github/pullrank.yml`; None where there are no settings."""


def offered(task: Task, machines: Machines) -> Task:
    """The task with the boards that a machine judges."""
    return task if machines is None else task.on(machines)


def shown(task: Task, machines: Machines, ledger: Ledger) -> Task:
    """The task with those, and with the boards that were judged on as long as they had a machine."""
    return task if machines is None else task.on({*machines, *ledger.gpus_of(task.name)})


def find_settings(tasks: Path) -> Settings | None:
    """The settings of the repository that a folder of tasks is part of; None where there are none.

    Raises:
        SettingsError: they are at fault.
    """
    settings = tasks.resolve().parent / SETTINGS
    return load_settings(settings) if settings.is_file() else None


def find_machines(tasks: Path) -> Machines:
    """The machines that those settings name; raises as `find_settings` does."""
    settings = find_settings(tasks)
    return settings.gpus if settings else None
