"""Check one board of a task: what its files say, its reference, and its examples.

`by_reading` runs nothing.  `check_board` runs the task's code in this process, which the code may end
(`check_process`).
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from harness.records.errors import JudgeError, SubmissionError, did_you_mean
from harness.records.judgement import Judgement
from harness.records.progress import Progress
from harness.records.verdict import Verdict
from harness.task.formula import evaluate
from harness.task.submission import read_directives
from harness.task.task import Board, Evaluator, Example, Task
from scripts.common.text import format_us
from scripts.competition.boards import find_machines
from scripts.competition.gpu_models import find_model, gpu_models
from scripts.competition.settings import SETTINGS, SettingsError

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


class CheckSteps(Protocol):
    """Shows what the check is doing, as `Display` does."""

    def begin(self, name: str) -> None: ...

    def say(self, step: str) -> None: ...

    def show(self, progress: Progress) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Remark:
    """A fault of a task, or a warning.  `where` is empty if the message itself begins with the file."""

    task: str
    where: str
    message: str
    is_fault: bool = False
    is_fatal: bool = False
    """Whether it says why the task cannot be judged at all: its files do not load, or its reference fails."""
    accepts_wrong_form: bool = False
    """Whether it says that the task's check accepts an answer of another structure, shape or dtype."""
    is_unjudged: bool = False
    """Whether it says why this machine cannot judge the board."""

    @property
    def exit_code(self) -> int:
        return 3 if self.is_unjudged else 2 if self.is_fatal else int(self.is_fault)


@dataclass(kw_only=True)
class Report:
    """The result of a check: the examples with the names of their tasks, and remarks."""

    examples: list[tuple[str, ExampleOutcome]] = field(default_factory=list)
    remarks: list[Remark] = field(default_factory=list)

    def add(self, more: Report) -> None:
        self.examples += more.examples
        self.remarks += more.remarks

    @property
    def exit_code(self) -> int:
        examples = (one.exit_code for _, one in self.examples)
        return max([0, *examples, *(one.exit_code for one in self.remarks)])

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


def by_reading(task: Task) -> Iterator[Remark]:
    """The warnings for which nothing is run."""
    yield from _unknown_gpus(task)
    yield from _too_much_work(task)
    yield from _never_tried(task)
    yield from _astray(task)
    yield from _for_another_task(task)


def check_board(board: Board, sandbox: str, steps: CheckSteps) -> Report:
    """Probe the reference and judge the examples.  An error in one example becomes its outcome."""
    report = Report()
    if why := why_not_here(board):
        report.remarks.append(_not_judged(board, why))
        return report
    steps.begin("reference")
    judged = _judge_examples(board, sandbox, steps, partial(_probe, board, steps, report.remarks))
    if why := _needs_gpu(board, judged):
        report.remarks.append(_not_judged(board, why))
        return report
    report.examples += ((board.task.name, one) for one in judged)
    report.remarks += _never_judged(board.task, judged)
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


def _unknown_gpus(task: Task) -> Iterator[Remark]:
    """Warn of boards that the competition has no machine for, and whose names are no known GPU's: typing mistakes."""
    try:
        machines = find_machines(task.folder.parent)
    except SettingsError:  # `pullrank tasks` reports it
        return
    if machines is None:
        return
    spelled = {name.casefold() for name in machines}
    for gpu in task.gpus:
        if gpu not in {"CPU", *machines} and (gpu.casefold() in spelled or not find_model(gpu)):
            near = did_you_mean(gpu, [*gpu_models(), *machines]) or "; `pullrank gpus` lists those that it knows"
            yield Remark(task=task.name, where="gpus", message=f"{SETTINGS} has no machine for '{gpu}'{near}")


def _too_much_work(task: Task) -> Iterator[Remark]:
    """Find cases that move more bytes, according to `work:`, than their board has memory."""
    formula = task.work and task.work.bytes
    for board in task.boards if formula else ():
        for case in (*board.tests, *board.benchmarks):
            gib = evaluate(formula or "0", case.params) / 2**30
            if gib > board.limits.memory_gib:
                message = f"moves {gib:.3g} GiB according to work.bytes; memory_gib is {board.limits.memory_gib:g}"
                yield Remark(task=task.name, where=f"{board.gpu}, {case.name}", message=message)


def _probe(board: Board, steps: CheckSteps, remarks: list[Remark]) -> bool:
    """Probe the task's own check with wrong answers and add the findings; return whether it can judge at all."""
    task = board.task
    if task.evaluator is not Evaluator.REFEREE:
        return True
    try:
        found = _flaws(board, steps)
    except JudgeError as error:
        message = f"the reference and its check were not probed: {error}"
        remarks.append(Remark(task=task.name, where=board.gpu, message=message))
        return True
    remarks += (Remark(task=task.name, **(asdict(one) | {"where": "" if one.is_fatal else one.where})) for one in found)
    return not any(one.is_fatal or one.is_unjudged for one in found)


def _flaws(board: Board, steps: CheckSteps) -> list[ProbeFinding]:
    """Find the flaws of a board's reference on the board's device.  Raises JudgeError if the device is missing."""
    from harness.gpu.device import device_of
    from harness.task_check.probe_reference import find_flaws

    device = device_of(board.gpu)
    if not device.is_gpu:
        return find_flaws(board, steps.say)
    with device.referee_side.prepared():
        return find_flaws(board, steps.say, device=device.name)


def _judge_examples(board: Board, sandbox: str, steps: CheckSteps, probe: Callable[[], bool]) -> list[ExampleOutcome]:
    """Judge all examples, and probe the reference while the sandbox starts."""
    from harness.task_check.judge_examples import judge_examples

    def begin(example: Example) -> None:
        steps.begin(example.place)

    judged = judge_examples(board, sandbox=sandbox, meanwhile=probe, on_begin=begin, on_progress=steps.show)
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
    """Warn of examples that are in no verdict's folder, or in another language than the task's."""
    for path in sorted(task.folder.glob(f"examples/*.{task.lang}")):
        message = "it is not judged: put it into a folder named after its verdict, such as examples/accepted"
        yield Remark(task=task.name, where=f"examples/{path.name}", message=message)
    judged = {example.path for example in task.examples}
    for path in sorted(task.folder.glob("examples/[!._]*/*.[pc][yu]")):
        if path.resolve() not in judged:
            message = f"it is not judged, because submissions of this task are .{task.lang} files"
            yield Remark(task=task.name, where=path.relative_to(task.folder).as_posix(), message=message)


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
