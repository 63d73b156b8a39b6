"""Where things lie: tasks, ledger and site of the repository that this code stands in."""

from __future__ import annotations

from pathlib import Path

from harness.errors import TaskError, did_you_mean
from harness.task import Task, load_task
from scripts.ledger.ledger import Ledger, LedgerError

ROOT = Path(__file__).resolve().parent.parent
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


def require_ledger(named: Path | None) -> Ledger:
    """The ledger that a call names, which must be there; else this repository's, which begins with its first fact."""
    if named and not named.is_dir():
        raise LedgerError(f"--ledger {named}: there is no such folder")
    return Ledger(named or LEDGER)
