"""`pullrank tasks` and `pullrank task …`: what organisers and participants do with tasks."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from rich.markdown import Markdown

from harness.errors import PullRankError, TaskError, did_you_mean
from harness.judgement import Mode
from harness.submission import read_submission
from harness.task import Board, Case, Example, Task, load_task, load_tasks
from harness.verdict import Verdict
from scripts.board import choose_board
from scripts.repository import TASKS, require_task
from scripts.terminal import Display, cell, console, table, verdict_text

_TASKS = click.option(
    "--tasks", "folder", type=click.Path(path_type=Path), default=TASKS, help="Folder of the tasks. Default: tasks/."
)
_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.command()
@_TASKS
@_JSON
def tasks(folder: Path, as_json: bool) -> None:
    """List the tasks and their boards.

    Example: pullrank tasks --json
    """
    found = load_tasks(folder)
    if as_json:
        click.echo(json.dumps([_summary(task) for task in found], indent=1))
        return
    made = table("", "Task", "Title", "Boards", "Open")
    made.columns[1].max_width, made.columns[2].max_width = 24, 12  # with a deadline, 80 columns
    for task in found:
        made.add_row(task.name, task.title, ", ".join(task.gpus), _closing(task))
    console().print(made)


@click.group()
def task() -> None:
    """Look at a task, start from its template, check it.

    Example: pullrank task show vectoradd
    """


@task.command()
@click.argument("name")
@_TASKS
@_JSON
def show(name: str, folder: Path, as_json: bool) -> None:
    """Show a task: statement, boards, cases and limits.

    Example: pullrank task show vectoradd
    """
    found = require_task(name, folder)
    if as_json:
        click.echo(json.dumps(_facts(found), indent=1))
        return
    stdout = console()
    stdout.print(found.title, style="bold")
    stdout.print(Markdown(found.description) if stdout.is_terminal else found.description)
    for board in found.boards:
        _print_cases(board)
    stdout.print(f"Open: {_closing(found)}. Ranked by: {found.ranking_by}.")
    stdout.print(f"Files beside yours: {', '.join(found.shared_files) or 'none'}.")
    stdout.print(f"Templates: {', '.join(found.templates) or 'none'} (pullrank task template {found.name}).")


@task.command()
@click.argument("name")
@click.option("--language", help="Which template, as `task show` names them. Default: the first.")
@click.option("--out", type=click.Path(path_type=Path), help="Write it to this new file.")
@_TASKS
def template(name: str, language: str | None, out: Path | None, folder: Path) -> None:
    """Print a task's template, the file to start from.

    Example: pullrank task template vectoradd --out submission.py
    """
    text = _template(require_task(name, folder), language).read_text("utf-8")
    if out is None:
        click.echo(text, nl=False)
        return
    with out.open("x", encoding="utf-8") as file:
        file.write(text)
    click.echo(f"{out}: try it with `pullrank test {out} --task {name}`")


def _template(task: Task, language: str | None) -> Path:
    if not task.templates:
        raise TaskError(f"{task.name} has no template; its examples/accepted/ show what a submission looks like")
    by_name = {known.casefold(): path for known, path in task.templates.items()}
    wanted = (language or next(iter(task.templates))).casefold()
    if wanted not in by_name:
        known = ", ".join(task.templates)
        near = did_you_mean(wanted, task.templates)
        raise TaskError(f"{task.name} has no template for '{language}'{near or '.'} It has: {known}")
    return by_name[wanted]


@task.command()
@click.argument("paths", nargs=-1, required=True, metavar="TASK...")
@click.option("--gpu", help="Which board of each task. Default: CPU, else its first.")
@click.option("--sandbox", type=click.Choice(["auto", "bubblewrap", "none"]), default="auto", help="The walls.")
@_JSON
def check(paths: tuple[str, ...], gpu: str | None, sandbox: str, as_json: bool) -> int:
    """Judge every example of every task; each must get the verdict that its folder is named after.

    Files among the arguments and folders without a task.yml are passed over.

    Example: pullrank task check tasks/*
    """
    from harness.sandbox import choose_kind

    named = _named(paths)
    choose_kind(sandbox)  # Where there are no walls, that is to be said once, not of every example.
    outcomes = check_examples(named, gpu, sandbox)
    if as_json:
        click.echo(json.dumps([asdict(outcome) for outcome in outcomes], indent=1))
    else:
        _print_outcomes(outcomes)
    return max((outcome.exit_code for outcome in outcomes), default=0)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What an example should have got, and what it got; `error_code` is of an error that kept it from being judged."""

    task: str
    example: str
    expected: Verdict
    got: Verdict
    message: str
    seconds: float
    error_code: int = 0

    @property
    def is_good(self) -> bool:
        return self.got is self.expected and not self.error_code

    @property
    def exit_code(self) -> int:
        if self.error_code:
            return self.error_code
        return 0 if self.is_good else 3 if self.got is Verdict.JUDGING_ERROR else 1


def _named(paths: Sequence[str]) -> list[Task]:
    """The tasks among the arguments, which may be paths or names; all faults of all of them at once."""
    found, faults = [], []
    for path in paths:
        if Path(path).exists() and not (Path(path) / "task.yml").exists():
            continue
        try:
            found.append(load_task(Path(path)) if Path(path).exists() else require_task(path))
        except TaskError as error:
            faults.append(str(error))
    if faults or not found:
        raise TaskError("\n".join(faults) or f"no task.yml in {', '.join(paths)}")
    return found


def check_examples(tasks: Sequence[Task], gpu: str | None, sandbox: str) -> list[Outcome]:
    """Judge all examples of all tasks, one after the other.  An error in one is its outcome, and the others go on."""
    jobs = [(choose_board(task, gpu), example) for task in tasks for example in task.examples]
    with Display(console(stderr=True), [_GUESSES_S.get(example.verdict, 3.0) for _, example in jobs]) as display:
        return [_check_example(board, example, sandbox, display) for board, example in jobs]


_GUESSES_S = {Verdict.ACCEPTED: 9.0, Verdict.TIME_LIMIT_EXCEEDED: 8.0}


def _check_example(board: Board, example: Example, sandbox: str, display: Display) -> Outcome:
    from harness.judge import judge

    place = example.path.relative_to(board.task.folder / "examples")
    display.begin(f"{board.task.name}/{place}")
    began = time.monotonic()
    error_code = 0
    try:
        submission = read_submission(example.path, login="example")
        # A benchmark, since an example may be too slow on the benchmarks alone.
        judgement = judge(board, submission, Mode.BENCHMARK, sandbox=sandbox, on_progress=display.show)
        got, message = judgement.verdict, judgement.message
    except PullRankError as error:
        got, message, error_code = Verdict.JUDGING_ERROR, str(error), error.exit_code
    return Outcome(
        task=board.task.name,
        example=str(place),
        expected=example.verdict,
        got=got,
        message=message,
        seconds=time.monotonic() - began,
        error_code=error_code,
    )


def _print_outcomes(outcomes: Sequence[Outcome]) -> None:
    made = table("", "Task", "Example", "Expected", "Got", "Seconds", "Message", right=("Seconds",))
    for one in outcomes:
        got = verdict_text(one.got)
        got.stylize("green" if one.is_good else "bold red")
        message = cell(next(iter(one.message.splitlines()), ""))
        made.add_row(one.task, one.example, one.expected, got, f"{one.seconds:.1f}", message)
    console().print(made)
    bad = sum(not one.is_good for one in outcomes)
    click.echo(f"{len(outcomes) - bad} of {len(outcomes)} examples got the verdict of their folder.")


def _closing(task: Task) -> str:
    if task.deadline is None:
        return "without end"
    until = f"{task.deadline.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    return f"until {until}" if task.is_open(datetime.now(UTC)) else f"closed since {until}"


def _print_cases(board: Board) -> None:
    made = table(f"\n{board.gpu}", "Kind", "Case")
    for case in (*board.tests, *board.benchmarks):
        made.add_row(case.kind, case.name)
    limits = ", ".join(f"{_in_words(name)} {value:g}" for name, value in asdict(board.limits).items())
    console().print(made, f"Limits: {limits}")


def _in_words(field: str) -> str:
    """`case timeout (s)` for `case_timeout_s`."""
    name, _, unit = field.rpartition("_")
    return f"{name.replace('_', ' ')} ({'GiB' if unit == 'gib' else unit})"


def _summary(task: Task) -> dict[str, Any]:
    return {
        "name": task.name,
        "title": task.title,
        "lang": task.lang,
        "gpus": task.gpus,
        "deadline": task.deadline and task.deadline.isoformat(),
        "open": task.is_open(datetime.now(UTC)),
    }


def _facts(task: Task) -> dict[str, Any]:
    return _summary(task) | {
        "description": task.description,
        "ranking_by": task.ranking_by,
        "files": list(task.shared_files),
        "templates": list(task.templates),
        "boards": [_board_facts(board) for board in task.boards],
    }


def _board_facts(board: Board) -> dict[str, Any]:
    return {
        "gpu": board.gpu,
        "edition": board.edition,
        "tests": [_params(case) for case in board.tests],
        "benchmarks": [_params(case) for case in board.benchmarks],
        "limits": asdict(board.limits),
    }


def _params(case: Case) -> dict[str, Any]:
    return dict(case.params)
