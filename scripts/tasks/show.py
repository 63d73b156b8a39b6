"""`pullrank task show / template / files`: print what a participant needs to know about a task.

show        statement, boards, cases, limits           template     the file to start from
files       the list of its files, or the text of one
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from rich.markdown import Markdown

from harness.records.errors import TaskError, did_you_mean
from harness.task.task import Board, Task
from harness.task.task_file import Ranking
from scripts.common.options import PATH, as_json_too
from scripts.common.terminal import cell, console, table
from scripts.common.text import plain, without_hidden
from scripts.competition.boards import find_machines, offered
from scripts.competition.completion import task_names
from scripts.competition.repository import TASKS, is_of_competition, require_task

_RANKINGS = {
    Ranking.GEOM: "the geometric mean of the benchmarks",
    Ranking.MEAN: "the mean of the benchmarks",
    Ranking.LAST: "the last benchmark alone",
}

in_tasks = click.option("--tasks", "folder", type=PATH, default=TASKS, help="Tasks folder. Default: tasks/.")


@click.command()
@click.argument("name", shell_complete=task_names)
@in_tasks
@as_json_too
def show(name: str, folder: Path, as_json: bool) -> None:
    """Show a task: statement, boards, cases and limits.

    Example: pullrank task show vectoradd
    """
    found = require_task(name, folder)
    judged = offered(found, find_machines(found.folder.parent))
    if as_json:
        click.echo(json.dumps(_facts(found, judged), indent=1))
        return
    stdout = console()
    stdout.print(plain(found.title), style="bold")
    description = without_hidden(found.description)
    stdout.print(Markdown(description) if stdout.is_terminal else description)
    alike: dict[str, list[Board]] = {}
    for board in judged.boards or found.boards:
        alike.setdefault(board.edition, []).append(board)
    for boards in alike.values():
        _print_cases(boards)
    if others := [gpu for gpu in found.gpus if gpu not in judged.gpus]:
        stdout.print(f"No machine here judges {', '.join(others)}.")
    stdout.print(f"Open: {closing(found)}. Ranked by {_RANKINGS[found.ranking_by]}.")
    stdout.print(f"Files next to yours: {', '.join(found.shared_files) or 'none'}.")
    stdout.print(f"Templates: {', '.join(found.templates) or 'none'} (pullrank task template {handle(found)}).")


@click.command()
@click.argument("name", shell_complete=task_names)
@click.option("--language", help="The template's language, as in `task show`. Default: the first.")
@click.option("--out", type=PATH, help="Write the template to this new file.")
@in_tasks
def template(name: str, language: str | None, out: Path | None, folder: Path) -> None:
    """Print a task's template, which is the file to start from.

    Example: pullrank task template vectoradd --out submission.py
    """
    task = require_task(name, folder)
    text = template_of(task, language).read_text("utf-8")
    if out is None:
        click.echo(text, nl=False)
        return
    with out.open("x", encoding="utf-8", newline="\n") as file:
        file.write(text)
    place = ["--task", task.name] if is_of_competition(task) else ["--task-dir", task.folder.as_posix()]
    click.echo(f"{out}: try it with `{shlex.join(['pullrank', 'test', out.as_posix(), *place])}`")


def handle(task: Task) -> str:
    """The argument that names this task to other `pullrank task` commands."""
    return task.name if is_of_competition(task) else shlex.quote(str(task.folder))


def template_of(task: Task, language: str | None) -> Path:
    """The path of a task's template."""
    if not task.templates:
        raise TaskError(f"{task.name} has no template; its examples/accepted/ shows what a submission looks like")
    by_name = {known.casefold(): path for known, path in task.templates.items()}
    wanted = (language or next(iter(task.templates))).casefold()
    if wanted not in by_name:
        known = ", ".join(task.templates)
        near = did_you_mean(wanted, task.templates)
        raise TaskError(f"{task.name} has no template for '{language}'{near or '.'} It has: {known}")
    return by_name[wanted]


@click.command()
@click.argument("name", shell_complete=task_names)
@click.argument("file", required=False)
@in_tasks
@as_json_too
def files(name: str, file: str | None, folder: Path, as_json: bool) -> None:
    """List a task's files, or print one.

    Example: pullrank task files vectoradd reference.py
    """
    if file and as_json:
        raise click.UsageError("--json lists the files; it cannot be combined with FILE.")
    task = require_task(name, folder)
    listed = files_of(task)
    if file:
        if file not in listed:
            near = did_you_mean(file, listed) or f"; see: pullrank task files {handle(task)}"
            raise TaskError(f"{task.name} has no file '{file}'{near}")
        click.echo(listed[file][1], nl=False)
    elif as_json:
        facts = [
            {"file": where, "role": role, "bytes": len(text), "lines": text.count(b"\n")}
            for where, (role, text) in listed.items()
        ]
        click.echo(json.dumps(facts, indent=1))
    else:
        made = table("", "File", "What it is", "Lines", right=("Lines",))
        for where, (role, text) in listed.items():
            made.add_row(cell(where), role, str(text.count(b"\n")))
        console().print(made)


def files_of(task: Task) -> dict[str, tuple[str, bytes]]:
    """Every file of a task by name: what it is, and its content."""
    roles = {
        name: ("the reference; hidden from submissions" if name == "reference.py" else "next to submissions", text)
        for name, text in task.files.items()
    }
    for language, path in task.templates.items():
        roles[_place(task, path)] = (f"template for {language}", path.read_bytes())
    for example in task.examples:
        content = example.path.read_bytes()
        what = f"example that must get {example.verdict}" + (", the anchor" if example.path == task.anchor else "")
        if baseline := task.baseline_name(hashlib.sha256(content).hexdigest()):
            what += f", the baseline {baseline}"
        roles[_place(task, example.path)] = (what, content)
    return {"task.yml": ("the task", (task.folder / "task.yml").read_bytes())} | roles


def _place(task: Task, path: Path) -> str:
    """A path relative to the task's folder, or to the folder of all tasks."""
    return path.relative_to(task.folder if path.is_relative_to(task.folder) else task.folder.parent).as_posix()


def closing(task: Task) -> str:
    """Until when a task ranks submissions."""
    return until(task.deadline) if task.ranks else "unranked"


def until(deadline: datetime | None) -> str:
    """A deadline in words."""
    if deadline is None:
        return "no deadline"
    moment = f"{deadline.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    return f"until {moment}" if datetime.now(UTC) < deadline else f"closed since {moment}"


def _print_cases(alike: Sequence[Board]) -> None:
    """Print the cases and limits of boards with one edition, and so with the same rules."""
    board = alike[0]
    made = table("\n" + ", ".join(one.gpu for one in alike), "Kind", "Case")
    for case in (*board.tests, *board.benchmarks):
        made.add_row(case.kind, case.name)
    set_limits = {name: value for name, value in asdict(board.limits).items() if value is not None}
    limits = ", ".join(f"{_in_words(name)} {value:g}" for name, value in set_limits.items())
    console().print(made, f"Limits: {limits}")


def _in_words(field: str) -> str:
    """`case timeout (s)` for `case_timeout_s`."""
    name, _, unit = field.rpartition("_")
    return f"{name.replace('_', ' ')} ({'GiB' if unit == 'gib' else unit})"


def summary(task: Task) -> dict[str, Any]:
    """A task of the list, as JSON."""
    return {
        "name": task.name,
        "title": task.title,
        "lang": task.lang,
        "gpus": task.gpus,
        "deadline": task.deadline and task.deadline.isoformat(),
        "open": task.is_open(datetime.now(UTC)),
    }


def _facts(task: Task, judged: Task) -> dict[str, Any]:
    """A task as JSON: `gpus` are the boards that a machine judges, `boards` all that the task names."""
    return summary(judged) | {
        "description": task.description,
        "evaluator": task.evaluator,
        "ranking_by": task.ranking_by,
        "files": list(task.shared_files),
        "templates": list(task.templates),
        "boards": [_board_facts(board) | {"judged": board.gpu in judged.gpus} for board in task.boards],
    }


def _board_facts(board: Board) -> dict[str, Any]:
    return {
        "gpu": board.gpu,
        "edition": board.edition,
        "tests": [dict(case.params) for case in board.tests],
        "benchmarks": [dict(case.params) for case in board.benchmarks],
        "limits": asdict(board.limits),
    }
