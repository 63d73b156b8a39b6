"""Honest submissions that must always pass: false accusations would drive participants away.

    tests/controls/<what>.py      a complete submission; its docstring says what it does, and may end in
        Task: blend               its task, if it is not the task of the exploits
        Mode: benchmark           also timed
        Needs: g++, ninja         programs that it needs; without them it is skipped
    tests/controls/task/          a task with nested inputs, changes in place, and time for long builds

A kernel that returns or raises the wrong thing by mistake is wrong, but no attack: an answer that the referee cannot
read would look forged.
"""

import ast
import contextlib
import re
import shutil
from collections import namedtuple
from dataclasses import replace
from pathlib import Path

import numpy
import pytest
import torch

from harness.inside.player import _failure, describe
from harness.inside.protocol import (
    MAX_DEPTH,
    MAX_DIMENSIONS,
    MAX_LEAVES,
    MAX_MESSAGE,
    Failed,
    TooComplex,
    read_answer,
    write,
)
from harness.records.fields import Mode
from harness.records.verdict import Verdict
from harness.reference.values import UnsupportedInput, flatten
from harness.sandbox.bubblewrap import ENVIRONMENT
from harness.task.submission import Submission
from harness.task.task import load_task
from tests.judge_sessions import JudgeSessions

FOLDER = Path(__file__).parent / "controls"
TASKS = {"sort": FOLDER.parent / "exploits" / "task", "blend": FOLDER / "task"}


class Control:
    def __init__(self, path):
        self.name = path.stem
        self.source = path.read_bytes()
        docstring = ast.get_docstring(ast.parse(self.source)) or ""
        self.claim = " ".join(docstring.split("\n\n")[0].split())
        fields = dict(re.findall(r"^(Task|Mode|Needs): (.+)$", docstring, re.MULTILINE))
        self.task = fields.get("Task", "sort")
        self.mode = Mode(fields.get("Mode", "test"))
        self.needs = fields["Needs"].split(", ") if "Needs" in fields else []


CONTROLS = sorted(map(Control, sorted(FOLDER.glob("*.py"))), key=lambda control: control.task)
"""Sorted by task: one session judges all controls of a task."""


@pytest.fixture(scope="module")
def boards():
    """With more time than the tasks allow, since the machine may be busy."""
    boards = {name: load_task(folder).board("CPU") for name, folder in TASKS.items()}
    times = {"case_timeout_s": 150, "test_timeout_s": 300, "benchmark_timeout_s": 300, "compile_timeout_s": 600}
    return {name: replace(board, limits=replace(board.limits, **times)) for name, board in boards.items()}


@pytest.fixture(scope="module")
def judged(boards, load):
    sessions = JudgeSessions()

    def judged(task, source, mode=Mode.TEST):
        return sessions.judge(boards[task], Submission(login="honest", source=source, name="submission.py"), mode)

    yield judged
    sessions.close()


@pytest.mark.walls
@pytest.mark.parametrize("control", CONTROLS, ids=lambda control: control.name)
def test_an_honest_submission_is_accepted(control, judged):
    if missing := [tool for tool in control.needs if not shutil.which(tool, path=ENVIRONMENT["PATH"])]:
        pytest.skip(f"players find no {' and no '.join(missing)} here")
    judgement = judged(control.task, control.source, control.mode)
    verdicts = {case.verdict for case in judgement.cases}
    assert Verdict.SECURITY_VIOLATION not in verdicts, f"a false accusation: {judgement.message}"
    assert verdicts == {judgement.verdict} == {Verdict.ACCEPTED}, f"{judgement.message}\n{judgement.log}"
    assert all(case.timing for case in judgement.benchmarks)
    assert bool(judgement.benchmarks) == (control.mode is Mode.BENCHMARK)


def test_the_suite_is_complete():
    assert len(CONTROLS) >= 28
    assert all(control.claim.endswith(".") for control in CONTROLS)
    assert len({control.claim for control in CONTROLS}) == len(CONTROLS)
    assert {control.mode for control in CONTROLS} == {Mode.TEST, Mode.BENCHMARK}


def nested(depth, value=1):
    for _ in range(depth):
        value = (value,)
    return value


class Large(int):
    pass


ODD_OUTPUTS = {
    "nested in itself": (circle := []) or circle.append(circle) or circle,
    "six hundred levels": nested(600),
    "five thousand digits": 10**5000,
    "as many in a subclass": [Large(10**5000)],
    "keys of all kinds": {None: 1, (1, 2): 2, 1.5: 3, True: 4},
    "half a surrogate pair": {"\ud800": "\udfff\0"},
    "no numbers": [float("nan"), -float("inf"), -0.0],
    "numpy's numbers": [numpy.float64(0.5), numpy.float32(0.5), numpy.int64(3), numpy.bool_(True)],
    "tensors of all kinds": [
        torch.ones(2).to_sparse(),
        torch.ones(2, device="meta"),
        torch.ones(2, dtype=torch.complex64).conj(),
        torch.empty(0, 3),
        torch.tensor(1.0),
        torch.ones(1).expand(10**6),
        torch.empty([1] * 40),
    ],
    "what nobody can describe": [object(), type, range(3), {1, 2}, b"bytes", namedtuple("Pair", "a b")(1, 2)],
    "a thousand strings": ["x"] * 5000,
}


@pytest.mark.parametrize("output", ODD_OUTPUTS.values(), ids=ODD_OUTPUTS)
def test_an_odd_output_is_not_taken_for_a_forgery(output):
    packet = b'{"is":"done","output":%s}' % describe(output).encode()
    with contextlib.suppress(TooComplex):  # refused as an output before it is sent
        assert read_answer(packet)


def test_numpy_floats_arrive_as_floats():
    answer = read_answer(b'{"is":"done","output":%s}' % describe(numpy.float64(0.1)).encode())
    assert (type(answer.output), answer.output) == (float, 0.1)


class OddCause(Exception):
    """Not even its cause can be asked for."""

    @property
    def __cause__(self):
        raise RuntimeError


ODD_ERRORS = {
    "emoji without end": RuntimeError("🔥" * 10_000),
    "an escape for each character": RuntimeError("\x1b\0" * 10_000),
    "no line": SyntaxError("bad template", ("/entry/submission.py", None, 0, "")),
    "a line before the first": SyntaxError("bad template", ("/entry/submission.py", -1, 0, "")),
    "a line that is no number": SyntaxError("bad template", ("/entry/submission.py", "one", 0, "")),
    "a line that is a bool": SyntaxError("bad template", ("/entry/submission.py", True, 0, "")),
    "a file that is no text": SyntaxError("bad template", (b"/entry/submission.py", 1, 0, "")),
    "half a surrogate pair": ValueError("\ud800"),
    "nothing": KeyError(),
    "causes that raise": OddCause("x"),
}


@pytest.mark.parametrize("error", ODD_ERRORS.values(), ids=ODD_ERRORS)
def test_an_odd_error_is_not_taken_for_a_forgery(error):
    packet = write(_failure(error, "/entry"))
    assert len(packet) <= MAX_MESSAGE
    answer = read_answer(packet)
    assert isinstance(answer, Failed)
    assert answer.error == type(error).__name__


@pytest.mark.walls
def test_an_import_that_fails_with_a_long_message_is_a_compile_error(judged):
    judgement = judged("sort", b'raise RuntimeError("\xf0\x9f\x94\xa5" * 10_000)\ndef custom_kernel(data): ...\n')
    assert judgement.verdict is Verdict.COMPILE_ERROR
    assert "RuntimeError: 🔥🔥🔥" in judgement.message


@pytest.mark.parametrize(
    "largest",
    [[torch.zeros(1)] * 500 + [(1,)] * 200, nested(MAX_DEPTH), torch.zeros([1] * MAX_DIMENSIONS), ["x" * 30_000]],
    ids=["values", "levels", "dimensions", "text"],
)
def test_a_kernel_may_return_values_as_large_as_the_references(largest):
    flatten(largest)
    assert read_answer(b'{"is":"done","output":%s}' % describe(largest).encode())


@pytest.mark.parametrize(
    "too_large",
    [[(1,)] * MAX_LEAVES, nested(MAX_DEPTH + 1), torch.zeros([1] * (MAX_DIMENSIONS + 1)), ["x" * 60_000]],
    ids=["values", "levels", "dimensions", "text"],
)
def test_a_task_value_too_large_for_a_kernel_to_return_is_refused(too_large):
    with pytest.raises(UnsupportedInput):
        flatten(too_large)
