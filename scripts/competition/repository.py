"""Where things lie: tasks, boards, ledger and site of the repository that this code stands in."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from harness.records.errors import TaskError, did_you_mean
from harness.task.task import Board, Language, Task, load_task
from harness.task.toolchain import Toolchain
from scripts.competition.settings import SETTINGS, load_settings
from scripts.ledger.ledger import Ledger, LedgerError

ROOT = Path(__file__).resolve().parents[2]
TASKS = ROOT / "tasks"
LEDGER = ROOT / "ledger"
SITE = ROOT / "_site"
TITLE = "PullRank"


def require_task(name: str, tasks: Path = TASKS) -> Task:
    """A task by its name in the folder `tasks`, or by the path of its own folder."""
    for folder in (tasks / name, Path(name)):
        if (folder / "task.yml").is_file():
            return load_task(folder)
    known = sorted(path.parent.name for path in tasks.glob("*/task.yml"))
    raise TaskError(f"no task '{name}' in {tasks}{did_you_mean(name, known)}; there are: {', '.join(known) or 'none'}")


def is_of_competition(task: Task) -> bool:
    """Whether it is one of this repository's, known by its name and handed in for; not a folder anywhere else."""
    return task.folder.resolve().parent == TASKS.resolve()


def require_ledger(named: Path | None) -> Ledger:
    """The ledger that a call names, which must be there; else this repository's, which begins with its first fact."""
    if named and not named.is_dir():
        raise LedgerError(f"--ledger {named}: there is no such folder")
    return Ledger(named or LEDGER)


def choose_board(task: Task, gpu: str | None, wishes: tuple[str, ...] = ()) -> Board:
    """The board that was asked for; else the first of `wishes`; else CPU; else the task's first."""
    if not task.gpus:
        raise TaskError(f"no machine here judges {task.name}, and none has; `pullrank tasks` lists what is judged")
    board = task.board(gpu or next(iter(wishes), None) or ("CPU" if "CPU" in task.gpus else task.gpus[0]))
    is_plain = board.gpu == "CPU" and task.lang is not Language.CU
    return board if is_plain else replace(board, toolchain=_toolchain_of(board.gpu))


def _toolchain_of(gpu: str) -> Toolchain:
    """As the settings of this repository describe a board's machines; nothing where they don't know the board."""
    known = load_settings(ROOT / SETTINGS).gpus
    return known[gpu].toolchain if gpu in known else Toolchain()
