"""`pullrank tasks` and `pullrank task …`: commands about tasks, one module each.

show  template  files                show         print the statement, a template, a file
eval-code                            eval_code    where and by which code the task is judged
check                                check        is the task ready for competition?
new                                  new          create a task
import                               importing    import a task from KernelBot's layout
diff                                 diff         which boards a change would reset
archive                              archive      close or delete a task

`pullrank init` is in `init`.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from harness.records.errors import did_you_mean
from harness.task.task import Task, load_tasks
from scripts.boards.board_facts import BoardName
from scripts.boards.source import SiteSource
from scripts.common.options import Group, as_json_too, given_again, was_given
from scripts.common.terminal import cell, console, say, table
from scripts.competition.boards import find_machines, offered
from scripts.competition.settings import SETTINGS
from scripts.kernelbot.importing import import_
from scripts.tasks.archive import archive
from scripts.tasks.check import check
from scripts.tasks.diff import diff
from scripts.tasks.eval_code import eval_code
from scripts.tasks.new import new
from scripts.tasks.show import closing, files, in_tasks, show, summary, template, until


@click.command()
@in_tasks
@click.option("--site", metavar="URL", help="Read a published site at this address; needs no clone.")
@as_json_too
def tasks(folder: Path, site: str | None, as_json: bool) -> None:
    """List the tasks and the boards that have a runner.

    Example: pullrank tasks --json
    """
    if site and was_given("folder"):
        raise click.UsageError("--site cannot be combined with --tasks.")
    if site:
        _published(SiteSource(site).index(), as_json=as_json)
        return
    machines = find_machines(folder)
    all_tasks = load_tasks(folder)
    found = [offered(task, machines) for task in all_tasks]
    if as_json:
        click.echo(json.dumps([summary(task) for task in found], indent=1))
        return
    _print([(task.name, task.title, ", ".join(task.gpus) or "none yet", closing(task)) for task in found])
    for fault in _unused(machines or (), all_tasks):
        say(fault, style="yellow")
    where = shlex.join(["TASK", *given_again("folder")])
    say(f"Next: `pullrank task show {where}`, or `pullrank init {where}` for a working folder")


def _unused(machines: Iterable[str], tasks: Sequence[Task]) -> Iterator[str]:
    """The GPUs in the settings that no task names, perhaps by a typing mistake."""
    named = {gpu for task in tasks for gpu in task.gpus}
    for gpu in machines if tasks else ():
        if gpu not in named:
            near = did_you_mean(gpu, named) or "; name it in the `gpus:` of each task that it should judge"
            yield f"{SETTINGS}: gpus.{gpu}: no task has this board{near}"


def _print(rows: Iterable[tuple[str, str, str, str]]) -> None:
    made = table("", "Task", "Title", "Boards", "Open")
    made.columns[1].max_width, made.columns[2].max_width = 24, 12  # with a deadline, a row fits 80 columns
    for row in rows:
        made.add_row(*map(cell, row))
    console().print(made)


def _published(boards: Sequence[BoardName], *, as_json: bool) -> None:
    """Print the tasks of a site's boards, in the site's order."""
    gpus: dict[str, list[str]] = {}
    for board in boards:
        gpus.setdefault(board.task, []).extend([board.gpu] if board.judged else ())
    firsts = {board.task: board for board in reversed(boards)}
    found = [(firsts[name], names) for name, names in gpus.items()]
    if as_json:
        click.echo(json.dumps([_published_facts(*one) for one in found], indent=1))
    else:
        _print((one.task, one.title, ", ".join(names) or "none now", until(one.deadline)) for one, names in found)


def _published_facts(board: BoardName, gpus: Sequence[str]) -> dict[str, Any]:
    """A site's task with the same keys as `summary` gives for a clone's."""
    return {
        "name": board.task,
        "title": board.title,
        "lang": board.lang,
        "gpus": gpus,
        "deadline": board.deadline and board.deadline.isoformat(),
        "open": board.is_open(datetime.now(UTC)),
    }


@click.group(cls=Group)
def task() -> None:
    """Show, create, check, import and archive tasks.

    Example: pullrank task show vectoradd
    """


for command in (show, template, files, eval_code, check, new, import_, diff, archive):
    task.add_command(command)
