"""`pullrank task check`: find everything wrong with a task before it costs a participant.

    files       load_task          report all faults with their lines; run nothing. `--static` stops here
    reference   probes             the check must refuse wrong answers, and the cases must fit the board; runs on the
                                   board's device. If the reference does not load, no example is judged
    examples    judge_examples     each must get the verdict that its folder is named after; examples that need a
                                   missing package or program are skipped
    times       accepted examples  a benchmark that is too short measures only the judge's own noise

A task that does not load, crashes or takes too long does not keep the others from being checked.

Exit codes: 1 for a fault or a wrong verdict, 2 for files that do not load and a reference that fails, 3 if something
cannot be judged on this machine, or the anchor is not accepted.  Warnings do not change it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console
from rich.text import Text

from harness.records.errors import TaskError
from harness.records.system import require_linux
from harness.task.task import Task, load_task
from scripts.common.options import as_json_too, in_sandbox, was_given
from scripts.common.terminal import cell, console, quoting, table, verdict_text
from scripts.common.text import plain, shorten
from scripts.competition.repository import require_task
from scripts.tasks.check_board import Remark, Report, by_reading
from scripts.tasks.check_process import STEP_MINUTES, check_tasks


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="TASK...")
@click.option("--gpu", help="The board of each task. Default: CPU if it has one, else its first.")
@in_sandbox
@click.option("--static", is_flag=True, help="Only read the files and run nothing: safe on untrusted tasks.")
@click.option(
    "--minutes",
    type=click.FloatRange(min=0, min_open=True),
    default=STEP_MINUTES,
    help="Longest time of one step, such as one test. Default: 10.",
)
@as_json_too
def check(paths: tuple[str, ...], gpu: str | None, sandbox: str, static: bool, minutes: float, as_json: bool) -> int:
    """Check tasks: their files, their references, and that each example gets the verdict of its folder.

    Arguments that are files or folders without a task.yml are skipped. A task that does not load, crashes or takes too
    long does not stop the check of the others. Exit codes: 1 for a fault or a wrong verdict, 2 for files that do not
    load or a reference that fails, 3 if something cannot be judged here.

    Example: pullrank task check tasks/*
    """
    if static and (gpu or was_given("sandbox") or was_given("minutes")):
        raise click.UsageError("--static runs nothing; it cannot be combined with --gpu, --sandbox or --minutes.")
    if not static:
        require_linux("; `--static` only reads the files")
    tasks, unread = _named(paths)
    if not tasks and not as_json:
        raise TaskError("\n".join(one.message for one in unread))
    if not as_json:
        for one in unread:
            click.echo(plain(one.message), err=True)  # before the others are judged
    report = Report(remarks=[one for task in tasks for one in by_reading(task)])
    if tasks and not static:
        report.add(check_tasks(tasks, gpu, sandbox, minutes))
    report.remarks += unread
    if as_json:
        click.echo(json.dumps(report.facts, indent=1))
    else:
        stdout = console()
        with quoting(stdout):
            _print(stdout, report, unread, len(tasks), static=static)
    return report.exit_code


def _named(paths: Sequence[str]) -> tuple[list[Task], list[Remark]]:
    """The tasks among the arguments, which may be paths or names, and why the others do not load.

    Raises:
        TaskError: no argument is a task.
    """
    found, unread = [], []
    for path in paths:
        if Path(path).exists() and not (Path(path) / "task.yml").exists():
            continue
        try:
            found.append(load_task(Path(path)) if Path(path).exists() else require_task(path))
        except TaskError as error:
            name = Path(path).absolute().name
            unread.append(Remark(task=name, where="", message=str(error), is_fault=True, is_fatal=True))
    if not found and not unread:
        raise TaskError(f"no task.yml in {', '.join(paths)}{_nearby(paths)}")
    return found, unread


def _nearby(paths: Sequence[str]) -> str:
    """Where the tasks are that these paths miss."""
    if any(path.endswith("task.yml") for path in paths):
        return "; name the task's folder, not its task.yml"
    with_tasks = next((path.rstrip("/") for path in paths if any(Path(path).glob("*/task.yml"))), "")
    return f"; name the folders in it: {with_tasks}/*" if with_tasks else ""


# Output.


def _print(stdout: Console, report: Report, unread: Sequence[Remark], tasks: int, *, static: bool) -> None:
    if report.examples:
        made = table("", "Task", "Example", "Expected", "Got", "Seconds", "Message", right=("Seconds",))
        for task, one in report.examples:
            got = verdict_text(one.got) if one.got else Text("skipped")
            got.stylize("yellow" if one.skipped else "green" if one.is_good else "bold red")
            message = cell(shorten(next(iter(one.message.splitlines()), ""), 500))
            made.add_row(task, one.example.place, one.example.verdict, got, f"{one.seconds:.1f}", message)
        stdout.print(made)
    for remark in sorted(report.remarks, key=lambda one: (not one.is_fault, one.task)):
        if remark in unread:  # it was printed before
            continue
        kind = "fault  " if remark.is_fault else "warning"
        place = f"{remark.task}: {remark.where}: " if remark.where else ""
        stdout.print(f"{kind}  {place}{plain(shorten(remark.message, 500))}", soft_wrap=True)
    run = "nothing run" if static else "no example judged"
    done = _examples_in_words(report) or f"{_count(tasks, 'task')} read, {run}; "
    faults = sum(one.is_fault for one in report.remarks)
    counts = f"{_count(faults, 'fault')}, {_count(len(report.remarks) - faults, 'warning')}."
    stdout.print(done + counts, soft_wrap=True)


def _examples_in_words(report: Report) -> str:
    if not report.examples:
        return ""
    good = sum(one.is_good for _, one in report.examples)
    skipped = sum(bool(one.skipped) for _, one in report.examples)
    judged = f"{good} of {len(report.examples) - skipped} examples got the verdict of their folder; "
    return judged + (f"{skipped} skipped; " if skipped else "")


def _count(number: int, word: str) -> str:
    return f"{number or 'no'} {word}{'' if number == 1 else 's'}"
