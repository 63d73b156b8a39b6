"""`pullrank task check`: is a task fit to be competed on?  All that is wrong with it, before anybody loses to it.

    files       load_task                 all faults with their lines; nothing is run. `--static` ends here
    reference   harness.probes            wrong answers that its check must refuse; cases that must fit the board
    examples    harness.judge             each must get the verdict that its folder is named after
    times       of accepted examples      a benchmark that is too short ranks nothing but the judge's own noise

A fault ends in exit code 1; a warning is said and changes nothing.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

from harness.errors import PullRankError, TaskError
from harness.formula import evaluate
from harness.judgement import Judgement, Mode, Timing
from harness.submission import read_submission
from harness.task import Board, Evaluator, Example, Task, load_task
from harness.verdict import Verdict
from scripts.board import choose_board
from scripts.claims import bound_share
from scripts.repository import require_task
from scripts.task_show import as_json_too
from scripts.terminal import Display, cell, console, table, verdict_text
from scripts.text import format_us

TOO_SHORT = 1 / 20
"""A benchmark whose bound is more than this share of its time tells small differences from nothing."""

_PROBES_S = 2.0
_GUESSES_S = {Verdict.ACCEPTED: 9.0, Verdict.TIME_LIMIT_EXCEEDED: 8.0}


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="TASK...")
@click.option("--gpu", help="Which board of each task. Default: CPU, else its first.")
@click.option("--sandbox", type=click.Choice(["auto", "bubblewrap", "none"]), default="auto", help="The walls.")
@click.option("--static", is_flag=True, help="Read the files only, and run nothing: safe on a stranger's folder.")
@as_json_too
def check(paths: tuple[str, ...], gpu: str | None, sandbox: str, static: bool, as_json: bool) -> int:
    """Check tasks: their files, their references, and that each example gets the verdict of its folder.

    Files among the arguments and folders without a task.yml are passed over.

    Example: pullrank task check tasks/*
    """
    found = _named(paths)
    if static:
        report = Report(outcomes=(), remarks=tuple(remark for task in found for remark in _too_much_work(task)))
    else:
        from harness.sandbox import choose_kind

        choose_kind(sandbox)  # Where there are no walls, that is to be said once, not of every example.
        report = check_tasks(found, gpu, sandbox)
    if as_json:
        click.echo(json.dumps(report.facts, indent=1))
    else:
        _print(report, len(found))
    return report.exit_code


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


@dataclass(frozen=True, kw_only=True)
class Remark:
    """A fault of a task, or a warning."""

    task: str
    where: str
    message: str
    is_fault: bool = False


@dataclass(frozen=True, kw_only=True)
class Report:
    """What a check came to."""

    outcomes: tuple[Outcome, ...]
    remarks: tuple[Remark, ...]

    @property
    def exit_code(self) -> int:
        faults = (1 for remark in self.remarks if remark.is_fault)
        return max((*(outcome.exit_code for outcome in self.outcomes), *faults), default=0)

    @property
    def facts(self) -> dict[str, Any]:
        return {"examples": [*map(asdict, self.outcomes)], "remarks": [*map(asdict, self.remarks)]}


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


def check_tasks(tasks: Sequence[Task], gpu: str | None, sandbox: str) -> Report:
    """Check tasks one after the other.  An error in one example is its outcome, and the others go on."""
    boards = [choose_board(task, gpu) for task in tasks]
    guesses_s = [
        guess
        for task in tasks
        for guess in (_PROBES_S, *(_GUESSES_S.get(example.verdict, 3.0) for example in task.examples))
    ]
    outcomes: list[Outcome] = []
    remarks: list[Remark] = []
    with Display(console(stderr=True), guesses_s) as display:
        for board in boards:
            remarks += _too_much_work(board.task)
            remarks += _probe(board, display)
            judged = [_judge(board, example, sandbox, display) for example in board.task.examples]
            outcomes += [outcome for outcome, _ in judged]
            remarks += _too_short(board, [judgement for _, judgement in judged if judgement])
    return Report(outcomes=tuple(outcomes), remarks=tuple(remarks))


# The parts.


def _too_much_work(task: Task) -> Iterator[Remark]:
    """Cases of any board that, as `work:` says, move more bytes than the board has memory."""
    formula = task.work and task.work.bytes
    for board in task.boards if formula else ():
        for case in (*board.tests, *board.benchmarks):
            gib = evaluate(formula or "0", case.params) / 2**30
            if gib > board.limits.memory_gib:
                message = f"moves {gib:.1f} GiB, as work.bytes says; memory_gib is {board.limits.memory_gib:g}"
                yield Remark(task=task.name, where=f"{board.gpu}, {case.name}", message=message)


def _probe(board: Board, display: Display) -> list[Remark]:
    """What the task's own check says to wrong answers."""
    display.begin(f"{board.task.name}: reference")
    task = board.task
    if task.evaluator is not Evaluator.REFEREE:
        return []
    if board.gpu != "CPU":
        return [
            Remark(task=task.name, where=board.gpu, message="its check was not probed: that is done on a CPU board")
        ]
    from harness.probes import find_flaws

    return [Remark(task=task.name, **asdict(finding)) for finding in find_flaws(board, display.say)]


def _judge(board: Board, example: Example, sandbox: str, display: Display) -> tuple[Outcome, Judgement | None]:
    from harness.judge import judge

    place = example.path.relative_to(board.task.folder / "examples")
    display.begin(f"{board.task.name}/{place}")
    began = time.monotonic()
    judgement, error_code = None, 0
    try:
        submission = read_submission(example.path, login="example")
        # A benchmark, since an example may be too slow on the benchmarks alone.
        judgement = judge(board, submission, Mode.BENCHMARK, sandbox=sandbox, on_progress=display.show)
        got, message = judgement.verdict, judgement.message
    except PullRankError as error:
        got, message, error_code = Verdict.JUDGING_ERROR, str(error), error.exit_code
    outcome = Outcome(
        task=board.task.name,
        example=str(place),
        expected=example.verdict,
        got=got,
        message=message,
        seconds=time.monotonic() - began,
        error_code=error_code,
    )
    return outcome, judgement


def _too_short(board: Board, judgements: Sequence[Judgement]) -> Iterator[Remark]:
    """Benchmarks that the fastest of the task's own examples ends too soon."""
    for number, case in enumerate(board.benchmarks):
        timings = [timing for one in judgements if (timing := _timing(one, number))]
        shortest = min(timings, key=lambda timing: timing.submission_us, default=None)
        if shortest and bound_share(shortest) > TOO_SHORT:
            message = (
                f"too short to time well: {format_us(shortest.submission_us)}, and a window's own cost is "
                f"{format_us(shortest.bound_us)}; make it {_times_larger(shortest)} times as long"
            )
            yield Remark(task=board.task.name, where=f"{board.gpu}, {case.name}", message=message)


def _timing(judgement: Judgement, number: int) -> Timing | None:
    benchmarks = judgement.benchmarks
    return benchmarks[number].timing if number < len(benchmarks) else None


def _times_larger(timing: Timing) -> int:
    return -(-int(100 * bound_share(timing) / TOO_SHORT) // 100)


# What is printed.


def _print(report: Report, tasks: int) -> None:
    stdout = console()
    if report.outcomes:
        made = table("", "Task", "Example", "Expected", "Got", "Seconds", "Message", right=("Seconds",))
        for one in report.outcomes:
            got = verdict_text(one.got)
            got.stylize("green" if one.is_good else "bold red")
            message = cell(next(iter(one.message.splitlines()), ""))
            made.add_row(one.task, one.example, one.expected, got, f"{one.seconds:.1f}", message)
        stdout.print(made)
    for remark in sorted(report.remarks, key=lambda one: (not one.is_fault, one.task)):
        kind = "fault  " if remark.is_fault else "warning"
        stdout.print(f"{kind}  {remark.task}: {remark.where}: {remark.message}", soft_wrap=True)
    stdout.print(_sums(report, tasks), soft_wrap=True)


def _sums(report: Report, tasks: int) -> str:
    good = sum(one.is_good for one in report.outcomes)
    faults = sum(one.is_fault for one in report.remarks)
    examples = f"{good} of {len(report.outcomes)} examples got the verdict of their folder; "
    counts = f"{_count(faults, 'fault')}, {_count(len(report.remarks) - faults, 'warning')}."
    return (examples if report.outcomes else f"{_count(tasks, 'task')} read, nothing run; ") + counts


def _count(number: int, word: str) -> str:
    return f"{number or 'no'} {word}{'' if number == 1 else 's'}"
