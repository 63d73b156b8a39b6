"""`pullrank task check`: find everything wrong with a task before it costs a participant.

    files       load_task          report all faults with their lines; run nothing. `--static` stops here
    reference   probes             the check must refuse wrong answers, and the cases must fit the board; runs on the
                                   board's device. If the reference does not load, no example is judged
    examples    judge_examples     each must get the verdict that its folder is named after; examples that need a
                                   missing package or program are skipped
    times       accepted examples  a benchmark that is too short measures only the judge's own noise

Any fault makes the exit code 1; warnings do not change it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from harness.records.errors import JudgeError, TaskError
from harness.records.judgement import Judgement
from harness.records.times import Timing
from harness.records.verdict import Verdict
from harness.task.formula import evaluate
from harness.task.task import Board, Evaluator, Example, Task, load_task
from scripts.common.options import as_json_too, in_sandbox
from scripts.common.terminal import Display, cell, console, table, verdict_text
from scripts.common.text import format_us
from scripts.competition.repository import choose_board, require_task

if TYPE_CHECKING:
    from harness.task_check.probe_reference import ProbeFinding

TOO_SHORT = 1 / 20
"""If a benchmark's bound is a larger share of its time than this, it cannot resolve small differences."""

_PROBES_S = 2.0
_GUESSES_S = {Verdict.ACCEPTED: 9.0, Verdict.TIME_LIMIT_EXCEEDED: 8.0}


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="TASK...")
@click.option("--gpu", help="The board of each task. Default: CPU if it has one, else its first.")
@in_sandbox
@click.option("--static", is_flag=True, help="Only read the files and run nothing: safe on untrusted tasks.")
@as_json_too
def check(paths: tuple[str, ...], gpu: str | None, sandbox: str, static: bool, as_json: bool) -> int:
    """Check tasks: their files, their references, and that each example gets the verdict of its folder.

    Arguments that are files or folders without a task.yml are skipped.

    Example: pullrank task check tasks/*
    """
    found = _named(paths)
    if static:
        read = (remark for task in found for remark in (*_too_much_work(task), *_never_tried(task)))
        report = Report(outcomes=(), remarks=tuple(read), is_static=True)
    else:
        from harness.sandbox.sandbox import choose_kind

        choose_kind(sandbox)  # Report a missing sandbox once, not for every example.
        report = check_tasks(found, gpu, sandbox)
    if as_json:
        click.echo(json.dumps(report.facts, indent=1))
    else:
        _print(report, len(found))
    return report.exit_code


@dataclass(frozen=True, kw_only=True)
class ExampleOutcome:
    """The verdict that an example should have got, and the one it got: None if skipped, `message` says why.

    `error_code` is the exit code of the error that kept it from being judged.
    """

    task: str
    example: str
    expected: Verdict
    got: Verdict | None
    message: str
    seconds: float
    error_code: int = 0

    @property
    def is_good(self) -> bool:
        return self.got is self.expected and not self.error_code

    @property
    def is_skipped(self) -> bool:
        return self.got is None

    @property
    def exit_code(self) -> int:
        if self.error_code:
            return self.error_code
        return 0 if self.is_good or self.is_skipped else 3 if self.got is Verdict.JUDGING_ERROR else 1


@dataclass(frozen=True, kw_only=True)
class Remark:
    """A fault of a task, or a warning."""

    task: str
    where: str
    message: str
    is_fault: bool = False


@dataclass(frozen=True, kw_only=True)
class Report:
    """The result of a check."""

    outcomes: tuple[ExampleOutcome, ...]
    remarks: tuple[Remark, ...]
    is_static: bool = False
    """Whether the files were only read, with --static."""

    @property
    def exit_code(self) -> int:
        faults = (1 for remark in self.remarks if remark.is_fault)
        return max((*(outcome.exit_code for outcome in self.outcomes), *faults), default=0)

    @property
    def facts(self) -> dict[str, Any]:
        return {"examples": [*map(asdict, self.outcomes)], "remarks": [*map(asdict, self.remarks)]}


def _named(paths: Sequence[str]) -> list[Task]:
    """The tasks among the arguments, which may be paths or names; raises the faults of all of them at once."""
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
    """Check tasks in turn.  An error in one example becomes its outcome; the others are judged all the same."""
    boards = [choose_board(task, gpu) for task in tasks]
    guesses_s = [
        guess
        for task in tasks
        for guess in (_PROBES_S, *(_GUESSES_S.get(example.verdict, 3.0) for example in task.examples))
    ]
    outcomes: list[ExampleOutcome] = []
    remarks: list[Remark] = []
    with Display(console(stderr=True), guesses_s) as display:
        for board in boards:
            remarks += _too_much_work(board.task)
            remarks += _never_tried(board.task)
            probe = partial(_probe, board, display, remarks)
            judged = list(_judge_examples(board, sandbox, display, probe))
            # The anchor is judged last, but the report lists it in its place.
            places = [place_of(board.task, example) for example in board.task.examples]
            outcomes += sorted((outcome for outcome, _ in judged), key=lambda one: places.index(one.example))
            remarks += _never_judged(board.task, outcomes)
            remarks += _too_short(board, [judgement for _, judgement in judged if judgement])
    return Report(outcomes=tuple(outcomes), remarks=tuple(remarks))


# The parts.


def _too_much_work(task: Task) -> Iterator[Remark]:
    """Find cases that move more bytes, according to `work:`, than their board has memory."""
    formula = task.work and task.work.bytes
    for board in task.boards if formula else ():
        for case in (*board.tests, *board.benchmarks):
            gib = evaluate(formula or "0", case.params) / 2**30
            if gib > board.limits.memory_gib:
                message = f"moves {gib:.1f} GiB according to work.bytes; memory_gib is {board.limits.memory_gib:g}"
                yield Remark(task=task.name, where=f"{board.gpu}, {case.name}", message=message)


def _probe(board: Board, display: Display, remarks: list[Remark]) -> bool:
    """Probe the task's own check with wrong answers and add the findings; return whether it can judge at all."""
    task = board.task
    display.begin(f"{task.name}: reference")
    if task.evaluator is not Evaluator.REFEREE:
        return True
    try:
        found = _flaws(board, display)
    except JudgeError as error:
        message = f"the reference and its check were not probed: {error}"
        remarks.append(Remark(task=task.name, where=board.gpu, message=message))
        return True
    remarks += (Remark(task=task.name, where=one.where, message=one.message, is_fault=one.is_fault) for one in found)
    return not any(one.is_fatal for one in found)


def _flaws(board: Board, display: Display) -> list[ProbeFinding]:
    """Find the flaws of a board's reference on the board's device.  Raises JudgeError if the device is missing."""
    from harness.gpu.device import device_of
    from harness.task_check.probe_reference import find_flaws

    device = device_of(board.gpu)
    if not device.is_gpu:
        return find_flaws(board, display.say)
    with device.side.prepared():
        return find_flaws(board, display.say, device=device.name)


def _judge_examples(
    board: Board, sandbox: str, display: Display, probe: Callable[[], bool]
) -> Iterator[tuple[ExampleOutcome, Judgement | None]]:
    """Judge all examples, and probe the reference while the sandbox starts."""
    from harness.task_check.judge_examples import rehearse

    def begin(example: Example) -> None:
        display.begin(f"{board.task.name}/{place_of(board.task, example)}")

    for one in rehearse(board, sandbox=sandbox, meanwhile=probe, on_begin=begin, on_progress=display.show):
        outcome = ExampleOutcome(
            task=board.task.name,
            example=place_of(board.task, one.example),
            expected=one.example.verdict,
            got=one.got,
            message=one.message,
            seconds=one.seconds,
            error_code=one.error.exit_code if one.error else 0,
        )
        yield outcome, one.judgement


def place_of(task: Task, example: Example) -> str:
    """`accepted/fast.py`"""
    return example.path.relative_to(task.folder / "examples").as_posix()


def _never_judged(task: Task, outcomes: Sequence[ExampleOutcome]) -> Iterator[Remark]:
    """Find required verdicts for which every example was skipped."""
    mine = [one for one in outcomes if one.task == task.name]
    for verdict in (Verdict.ACCEPTED, Verdict.WRONG_ANSWER):
        asked = [one for one in mine if one.expected is verdict]
        if asked and all(one.is_skipped for one in asked):
            where = f"examples/{verdict.folder}"
            message = "all were skipped; add one that needs only torch and numpy"
            yield Remark(task=task.name, where=where, message=message, is_fault=True)


def _never_tried(task: Task) -> Iterator[Remark]:
    """Warn of a task without examples, which is allowed if its own program judges: nothing tests that program."""
    if not task.examples:
        message = "there are none, so its program is untested; add an accepted and a wrong one"
        yield Remark(task=task.name, where="examples", message=message)


def _too_short(board: Board, judgements: Sequence[Judgement]) -> Iterator[Remark]:
    """Find benchmarks that are too short for the fastest of the task's own examples."""
    for number, case in enumerate(board.benchmarks):
        timings = [timing for one in judgements if (timing := _timing(one, number))]
        times = [(time_us, one.bound_us) for one in timings for time_us in (one.submission_us, one.anchor_us)]
        shortest_us, bound_us = min(times, default=(math.inf, 0.0))
        if bound_us > TOO_SHORT * shortest_us:
            message = (
                f"too short to time well: it takes {format_us(shortest_us)}, and the window itself costs "
                f"{format_us(bound_us)}; make it {math.ceil(bound_us / shortest_us / TOO_SHORT)} times as long"
            )
            yield Remark(task=board.task.name, where=f"{board.gpu}, {case.name}", message=message)


def _timing(judgement: Judgement, number: int) -> Timing | None:
    benchmarks = judgement.benchmarks
    return benchmarks[number].timing if number < len(benchmarks) else None


# Output.


def _print(report: Report, tasks: int) -> None:
    stdout = console()
    if report.outcomes:
        made = table("", "Task", "Example", "Expected", "Got", "Seconds", "Message", right=("Seconds",))
        for one in report.outcomes:
            got = verdict_text(one.got) if one.got else Text("skipped")
            got.stylize("yellow" if one.is_skipped else "green" if one.is_good else "bold red")
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
    skipped = sum(one.is_skipped for one in report.outcomes)
    examples = f"{good} of {len(report.outcomes) - skipped} examples got the verdict of their folder; "
    examples += f"{skipped} skipped; " if skipped else ""
    counts = f"{_count(faults, 'fault')}, {_count(len(report.remarks) - faults, 'warning')}."
    run = "nothing run" if report.is_static else "no example judged"
    return (examples if report.outcomes else f"{_count(tasks, 'task')} read, {run}; ") + counts


def _count(number: int, word: str) -> str:
    return f"{number or 'no'} {word}{'' if number == 1 else 's'}"
