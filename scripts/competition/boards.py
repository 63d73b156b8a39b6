"""The boards of a competition: those of its tasks' GPUs that have a machine.

    task.yml         gpus: [CPU, T4, H100, …]     where the task can be judged
    pullrank.yml     gpus: {CPU: …, H100: …}      the available machines          ─▶ offered: boards that are judged
    the ledger       judgements/<task>/<gpu>/     what was judged before          ─▶ shown: also boards of the past

A board that ranks nothing new keeps the timing method of its last judgements: an update of PullRank with a newer
method empties the open boards only.

A folder of tasks without settings is not a competition, and has all the boards that its tasks name.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from harness.records.judgement import Judgement
from harness.task.task import Board, Task
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


def as_it_ended(board: Board, judgements: Sequence[Judgement], now: datetime, *, is_judged: bool) -> Board:
    """The board with its timing method when its task closed or its last machine left; an open board as it is.

    Args:
        judgements: of this board, in ledger order.
        is_judged: whether a machine judges it now.
    """
    deadline = board.task.deadline
    end = deadline if deadline and deadline <= now else None if is_judged else now
    if not end or not judgements:
        return board
    last = ([one for one in judgements if one.finished_at <= end] or judgements)[-1]
    then = replace(board, method=last.harness.method)
    return then if then.edition == last.edition else board  # its task has changed, too


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
