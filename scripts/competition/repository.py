"""Paths of the competition's repository: tasks, ledger and site.

In a clone, this is the clone. Where PullRank was installed from the repository, the wheel contains a copy of what
participants need of it (setup.py).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from harness.records.errors import TaskError, did_you_mean
from harness.task.task import Board, Language, Task, load_task
from scripts.competition.settings import SETTINGS, load_settings
from scripts.ledger.ledger import FOLDERS, Ledger, LedgerError

_BESIDE = Path(__file__).resolve().parents[2]
_COPY = _BESIDE / "pullrank_competition"
IS_CLONE = not _COPY.is_dir()
ROOT = _BESIDE if IS_CLONE else _COPY
UPDATE = "`git pull`" if IS_CLONE else "`uv tool upgrade --reinstall pullrank`"
"""How to get the competition's current state.  Without --reinstall, uv keeps a wheel of the same address."""
TASKS = ROOT / "tasks"
LEDGER = ROOT / "ledger"
SITE = ROOT / "_site"
TASK_COPY = "task"
"""The folder of a task's files that `pullrank init` lays out beside a submission."""
TITLE = "PullRank"


def require_clone(command: str, tasks: Path = TASKS) -> None:
    """Raise TaskError if PullRank was installed without a clone, unless `pullrank COMMAND` works on other tasks."""
    if not IS_CLONE and tasks == TASKS:
        raise TaskError(
            f"`pullrank {command}` needs a clone of the competition's repository: clone it, run `make setup` in it, "
            "and use its .venv/bin/pullrank"
        )


def require_task(name: str, tasks: Path = TASKS) -> Task:
    """A task by its name in the folder `tasks`, or by the path of its folder.

    Raises:
        TaskError: there is no such task, or it is invalid.
    """
    for folder in (tasks / name, Path(name)):
        if (folder / "task.yml").is_file():
            return load_task(folder)
    known = sorted(path.parent.name for path in tasks.glob("*/task.yml"))
    near = did_you_mean(name, known) or f"; there are: {', '.join(known) or 'none'}"
    raise TaskError(f"no task '{name}' in {tasks}{near}")


def is_of_competition(task: Task) -> bool:
    """Whether the task is in this repository, so that it has a name and takes submissions; not a folder elsewhere."""
    return task.folder.resolve().parent == TASKS.resolve()


def require_ledger(named: Path | None) -> Ledger:
    """The ledger that the call names, which must exist; else this repository's, which may not exist yet."""
    if named and not named.is_dir():
        raise LedgerError(f"--ledger {named}: there is no such folder")
    if named and not _is_ledger(named):
        inside = next(named.glob("ledger/"), None)
        raise LedgerError(f"--ledger {named}: this folder is no ledger{f'; {inside} may be one' if inside else ''}")
    return Ledger(named or LEDGER)


def _is_ledger(folder: Path) -> bool:
    """Whether the folder may be a ledger: it has a part of one, or is still empty."""
    names = {path.name for path in folder.iterdir()}
    return not names - {".git", "README.md"} or bool(names.intersection(FOLDERS))


def home_of(ledger: Path | None) -> Path:
    """The folder with the tasks and submissions that a ledger is about: the ledger's own, if it has tasks/ next to it.

    So it is in a clone, and in the folder that `pullrank demo --out` writes.  Default: this competition's.
    """
    return ledger.parent if ledger and (ledger.parent / "tasks").is_dir() else ROOT


def choose_board(task: Task, gpu: str | None, preferred: tuple[str, ...] = ()) -> Board:
    """The board of `gpu`; else the first of `preferred`; else CPU; else the task's first."""
    if not task.gpus:
        raise TaskError(f"no machine here judges {task.name} or has judged it; `pullrank tasks` lists the boards")
    board = task.board(gpu or next(iter(preferred), None) or ("CPU" if "CPU" in task.gpus else task.gpus[0]))
    if board.gpu == "CPU" and task.lang is not Language.CU:
        return board
    known = load_settings(ROOT / SETTINGS).gpus
    return replace(board, toolchain=known[board.gpu].toolchain) if board.gpu in known else board
