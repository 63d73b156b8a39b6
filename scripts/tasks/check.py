"""`pullrank task check`: find everything wrong with a task before it costs a participant.

    files       load_task          report all faults with their lines; run nothing. `--static` stops here
    reference   probes             the check must refuse wrong answers, and the cases must fit the board; runs on the
                                   board's device. If the reference does not load, no example is judged
    examples    judge_examples     each must get the verdict that its folder is named after; examples that need a
                                   missing package or program are skipped
    times       accepted examples  a benchmark that is too short measures only the judge's own noise

Exit codes: 1 for a fault or a wrong verdict, 2 for files that do not load and a reference that fails, 3 if something
cannot be judged on this machine, or the anchor is not accepted.  Warnings do not change it.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.text import Text

from harness.records.errors import JudgeError, SubmissionError, TaskError
from harness.records.judgement import Judgement
from harness.records.verdict import Verdict
from harness.task.formula import evaluate
from harness.task.submission import read_directives
from harness.task.task import Board, Evaluator, Example, Task, load_task
from scripts.common.options import as_json_too, in_sandbox, was_given
from scripts.common.terminal import Display, cell, console, quoting, stdout_to_stderr, table, verdict_text
from scripts.common.text import format_us, plain, shorten
from scripts.competition.repository import choose_board, require_task

if TYPE_CHECKING:
    from harness.task_check.judge_examples import ExampleOutcome
    from harness.task_check.probe_reference import ProbeFinding

TOO_SHORT = 1 / 20
"""If a benchmark's bound is a larger share of its time than this, it cannot resolve small differences."""

_NO_GPU = re.compile(
    r"Torch not compiled with CUDA enabled|Found no NVIDIA driver|No (?:CUDA|HIP) GPUs are available|"
    r"(?:cuda_runtime|hip_runtime)\w*\.h: No such file|invalid device ordinal"
)
"""Messages of torch and of compilers on a machine without a GPU, or without its headers."""
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
    if static and (gpu or was_given("sandbox")):
        raise click.UsageError("--static runs nothing; it cannot be combined with --gpu or --sandbox.")
    found = _named(paths)
    if static:
        report = Report(remarks=[one for task in found for one in _by_reading(task)])
    else:
        report = check_tasks(found, gpu, sandbox)
    if as_json:
        click.echo(json.dumps(report.facts, indent=1))
    else:
        stdout = console()
        with quoting(stdout):
            _print(stdout, report, len(found), static=static)
    return report.exit_code


@dataclass(frozen=True, kw_only=True)
class Remark:
    """A fault of a task, or a warning."""

    task: str
    where: str
    message: str
    is_fault: bool = False
    accepts_wrong_form: bool = False
    """Whether it says that the task's check accepts an answer of another structure, shape or dtype."""
    is_unjudged: bool = False
    """Whether it says why this machine cannot judge the board."""


@dataclass(kw_only=True)
class Report:
    """The result of a check: the examples with the names of their tasks, and remarks."""

    examples: list[tuple[str, ExampleOutcome]] = field(default_factory=list)
    remarks: list[Remark] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        remarks = (3 if remark.is_unjudged else 1 for remark in self.remarks if remark.is_fault or remark.is_unjudged)
        return max((*(one.exit_code for _, one in self.examples), *remarks), default=0)

    @property
    def facts(self) -> dict[str, Any]:
        examples = [_facts_of_example(task, one) for task, one in self.examples]
        return {"examples": examples, "remarks": [*map(asdict, self.remarks)]}


def _facts_of_example(task: str, one: ExampleOutcome) -> dict[str, Any]:
    """`got` is None if it was skipped; `error_code` is the exit code of the error that kept it from being judged."""
    return {
        "task": task,
        "example": one.example.place,
        "expected": one.example.verdict,
        "got": one.got,
        "message": one.message,
        "seconds": one.seconds,
        "error_code": one.error.exit_code if one.error else 0,
    }


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
        raise TaskError("\n".join(faults) or f"no task.yml in {', '.join(paths)}{_nearby(paths)}")
    return found


def _nearby(paths: Sequence[str]) -> str:
    """Where the tasks are that these paths miss."""
    if any(path.endswith("task.yml") for path in paths):
        return "; name the task's folder, not its task.yml"
    with_tasks = next((path.rstrip("/") for path in paths if any(Path(path).glob("*/task.yml"))), "")
    return f"; name the folders in it: {with_tasks}/*" if with_tasks else ""


def check_tasks(tasks: Sequence[Task], gpu: str | None, sandbox: str) -> Report:
    """Check tasks in turn.  An error in one example becomes its outcome; the others are judged all the same."""
    from harness.sandbox.works_here import choose_kind
    from harness.shared_sandbox import share_sandbox

    choose_kind(sandbox)  # Report a missing sandbox once, not for every example.
    boards = [choose_board(task, gpu) for task in tasks]
    guesses_s = [
        guess
        for task in tasks
        for guess in (_PROBES_S, *(_GUESSES_S.get(example.verdict, 3.0) for example in task.examples))
    ]
    report = Report()
    with stdout_to_stderr(), Display(console(stderr=True), guesses_s) as display, share_sandbox():
        for board in boards:
            task = board.task
            report.remarks += _by_reading(task)
            if why := why_not_here(board):
                report.remarks.append(_not_judged(board, why))
                continue
            judged = _judge_examples(board, sandbox, display, partial(_probe, board, display, report.remarks))
            if why := _needs_gpu(board, judged):
                report.remarks.append(_not_judged(board, why))
                continue
            report.examples += ((task.name, one) for one in judged)
            report.remarks += _never_judged(task, judged)
            report.remarks += _too_short(board, [one.judgement for one in judged if one.judgement])
    return report


def why_not_here(board: Board) -> str:
    """Why this machine cannot judge a board: it lacks the GPUs; "" if it has them."""
    from harness.gpu.device import device_of
    from harness.gpu.gpu_nodes import require_gpus

    try:
        if device_of(board.gpu).is_gpu:
            require_gpus(board.world_size)
    except JudgeError as error:
        return str(error)
    return ""


# The parts.


def _not_judged(board: Board, why: str) -> Remark:
    return Remark(task=board.task.name, where=board.gpu, message=f"not judged here: {why}", is_unjudged=True)


def _needs_gpu(board: Board, judged: Sequence[ExampleOutcome]) -> str:
    """Why a task's own program cannot judge on the board CPU: it finds no GPU for all accepted examples; else ""."""
    if board.task.is_refereed or board.gpu != "CPU":
        return ""
    accepted = [one.message for one in judged if one.example.verdict is Verdict.ACCEPTED and not one.skipped]
    # "line 3: …" is the example's own line.
    missing = [found[0] for said in accepted if not said.startswith("line ") and (found := _NO_GPU.search(said))]
    return f"the task's program needs a GPU: {missing[0]}" if accepted and len(missing) == len(accepted) else ""


def _by_reading(task: Task) -> Iterator[Remark]:
    """The warnings for which nothing is run."""
    yield from _too_much_work(task)
    yield from _never_tried(task)
    yield from _astray(task)
    yield from _for_another_task(task)


def _too_much_work(task: Task) -> Iterator[Remark]:
    """Find cases that move more bytes, according to `work:`, than their board has memory."""
    formula = task.work and task.work.bytes
    for board in task.boards if formula else ():
        for case in (*board.tests, *board.benchmarks):
            gib = evaluate(formula or "0", case.params) / 2**30
            if gib > board.limits.memory_gib:
                message = f"moves {gib:.3g} GiB according to work.bytes; memory_gib is {board.limits.memory_gib:g}"
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
    remarks += (
        Remark(
            task=task.name,
            where=one.where,
            message=one.message,
            is_fault=one.is_fault,
            accepts_wrong_form=one.accepts_wrong_form,
            is_unjudged=one.is_unjudged,
        )
        for one in found
    )
    return not any(one.is_fatal or one.is_unjudged for one in found)


def _flaws(board: Board, display: Display) -> list[ProbeFinding]:
    """Find the flaws of a board's reference on the board's device.  Raises JudgeError if the device is missing."""
    from harness.gpu.device import device_of
    from harness.task_check.probe_reference import find_flaws

    device = device_of(board.gpu)
    if not device.is_gpu:
        return find_flaws(board, display.say)
    with device.referee_side.prepared():
        return find_flaws(board, display.say, device=device.name)


def _judge_examples(board: Board, sandbox: str, display: Display, probe: Callable[[], bool]) -> list[ExampleOutcome]:
    """Judge all examples, and probe the reference while the sandbox starts."""
    from harness.task_check.judge_examples import judge_examples

    def begin(example: Example) -> None:
        display.begin(f"{board.task.name}/{example.place}")

    judged = judge_examples(board, sandbox=sandbox, meanwhile=probe, on_begin=begin, on_progress=display.show)
    # The anchor is judged last, but the report lists it in its place.
    return sorted(judged, key=lambda one: board.task.examples.index(one.example))


def _never_judged(task: Task, judged: Sequence[ExampleOutcome]) -> Iterator[Remark]:
    """Find required verdicts for which every example was skipped."""
    for verdict in (Verdict.ACCEPTED, Verdict.WRONG_ANSWER):
        asked = [one for one in judged if one.example.verdict is verdict]
        if asked and all(one.skipped for one in asked):
            where = f"examples/{verdict.folder}"
            message = "all were skipped; add one that needs only torch and numpy"
            yield Remark(task=task.name, where=where, message=message, is_fault=True)


def _never_tried(task: Task) -> Iterator[Remark]:
    """Warn of a task without examples, which is allowed if its own program judges: nothing tests that program."""
    if not task.examples:
        message = "there are none, so its program is untested; add an accepted and a wrong one"
        yield Remark(task=task.name, where="examples", message=message)


def _astray(task: Task) -> Iterator[Remark]:
    """Warn of examples that are in no verdict's folder."""
    for path in sorted(task.folder.glob(f"examples/*.{task.lang}")):
        message = "it is not judged: put it into a folder named after its verdict, such as examples/accepted"
        yield Remark(task=task.name, where=f"examples/{path.name}", message=message)


def _for_another_task(task: Task) -> Iterator[Remark]:
    """Warn of examples and templates whose directive names another task: nobody could submit a copy of one."""
    for path in (*task.templates.values(), *(example.path for example in task.examples)):
        with contextlib.suppress(SubmissionError):  # the judge reports an invalid directive
            named = read_directives(path.read_text("utf-8", "replace"), path.name).leaderboard
            if named and named != task.name:
                message = f"its directive names the task '{named}'; write '{task.name}', or leave the directive out"
                yield Remark(task=task.name, where=path.relative_to(task.folder).as_posix(), message=message)


def _too_short(board: Board, judgements: Sequence[Judgement]) -> Iterator[Remark]:
    """Find benchmarks that are too short for the fastest of the task's own examples."""
    for number, case in enumerate(board.benchmarks):
        timed = [case.timing for one in judgements for case in one.benchmarks[number : number + 1] if case.timing]
        # The fastest run, and not the median of a few: other programs may stall all but one of them.
        times = [(run.time_us, one.bound_us) for one in timed for run in (*one.submission, *one.anchor)]
        shortest_us, bound_us = min(times, default=(math.inf, 0.0))
        if bound_us > TOO_SHORT * shortest_us:
            message = (
                f"too short to time well: it takes {format_us(shortest_us)}, and the window itself costs "
                f"{format_us(bound_us)}; make it {math.ceil(bound_us / shortest_us / TOO_SHORT)} times as long, or "
                "check again if the machine was busy"
            )
            yield Remark(task=board.task.name, where=f"{board.gpu}, {case.name}", message=message)


# Output.


def _print(stdout: Console, report: Report, tasks: int, *, static: bool) -> None:
    if report.examples:
        made = table("", "Task", "Example", "Expected", "Got", "Seconds", "Message", right=("Seconds",))
        for task, one in report.examples:
            got = verdict_text(one.got) if one.got else Text("skipped")
            got.stylize("yellow" if one.skipped else "green" if one.is_good else "bold red")
            message = cell(shorten(next(iter(one.message.splitlines()), ""), 500))
            made.add_row(task, one.example.place, one.example.verdict, got, f"{one.seconds:.1f}", message)
        stdout.print(made)
    for remark in sorted(report.remarks, key=lambda one: (not one.is_fault, one.task)):
        kind = "fault  " if remark.is_fault else "warning"
        stdout.print(f"{kind}  {remark.task}: {remark.where}: {plain(shorten(remark.message, 500))}", soft_wrap=True)
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
