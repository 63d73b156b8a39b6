"""`pullrank tasks` and `pullrank task …`: what organisers and participants do with tasks; each command has its module.

show  template  files  eval-code     show         look
check                                check        is it fit to be competed on?
new                                  new          from nothing
import                               importing    from KernelBot's layout
diff                                 diff         what a change would reset
archive                              archive      the end of a board
"""

from __future__ import annotations

import json
from pathlib import Path

import click

from harness.task import load_tasks
from scripts.kernelbot.importing import import_
from scripts.tasks.archive import archive
from scripts.tasks.check import check
from scripts.tasks.diff import diff
from scripts.tasks.new import new
from scripts.tasks.show import as_json_too, closing, eval_code, files, in_tasks, show, summary, template
from scripts.terminal import console, table


@click.command()
@in_tasks
@as_json_too
def tasks(folder: Path, as_json: bool) -> None:
    """List the tasks and their boards.

    Example: pullrank tasks --json
    """
    found = load_tasks(folder)
    if as_json:
        click.echo(json.dumps([summary(task) for task in found], indent=1))
        return
    made = table("", "Task", "Title", "Boards", "Open")
    made.columns[1].max_width, made.columns[2].max_width = 24, 12  # with a deadline, 80 columns
    for task in found:
        made.add_row(task.name, task.title, ", ".join(task.gpus), closing(task))
    console().print(made)


@click.group()
def task() -> None:
    """Look at a task, start from its template, check it, make one.

    Example: pullrank task show vectoradd
    """


for command in (show, template, files, eval_code, check, new, import_, diff, archive):
    task.add_command(command)
