"""The tests of a shipped task catch small mistakes in its reference, submitted as a kernel.

A mutant is the reference with one operator, number or truth value changed.  Each must fail a test of the CPU board: by
a wrong answer or by an exception.  `EQUIVALENT` lists those that compute the same for all inputs, with the reason.
References that only call functions of torch, without numbers, have no mutants.  There, an accepted example that
computes the same step by step takes their place: `STEP_BY_STEP`.  `WITHOUT` has neither.
"""

import ast
import copy
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.records.errors import JudgeError, TaskError
from harness.reference.reference import Reference
from harness.task.task import Board, Case, Task, load_tasks

TASKS = {task.name: task for task in load_tasks(Path(__file__).parent.parent / "tasks")}
EQUIVALENT = {
    "causalconv1d": {"(WIDTH - 1, 1)": "a window that begins within the input ends within it"},
    "cholesky": {"data.shape[2]": "the matrices are square", "explained[:, :, -1]": "the tensor has one column"},
    "conv2d": {"weight.shape[3]": "the filters are square"},
    "crossentropy": {
        "labels.masked_fill(is_ignored, 1)": "the loss is masked afterwards",
        "[:, -1]": "the tensor has one column",
    },
    "histogram": {"scatter_add_(-1": "the tensor has one dimension"},
    "mladecode": {"strict=False": "the sequences are as many"},
    "moegating": {"cumsum(dim=-1)": "the tensor has one dimension"},
    "pagedattention": {
        "strict=False": "the sequences are as many",
        "-length * PAGE": "names all pages; the tokens are cut to the length afterwards",
    },
    "prefixsum": {"dim=-1": "the tensor has one dimension"},
    "topksampling": {
        "sums < u": "no sum is equal to u, as MARGIN separates them",
        "[:, -1]": "the tensor has one column",
        "bits >> 32": "fills the number with its sign, as a shift by 31 does",
        "bits >> 30": "differs in the lowest bit, which is 0 in multiples of 1/256",
        "2147483646": "differs in the lowest bit, which is 0 in multiples of 1/256",
        "keys <<= 31": "still leaves room for the number of a token",
        "chosen + chosen": "multiplies all powers of a row by the same factor",
    },
}
"""By task: a part of the mutated statement, and why it changes no result."""

STEP_BY_STEP = {
    "cholesky": "column_by_column.py",
    "conv2d": "patches.py",
    "crossentropy": "in_one_buffer.py",
    "histogram": "scattered_ones.py",
    "matmul": "slices.py",
}
WITHOUT = {"identity", "sort"}

_SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitOr,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.USub: ast.UAdd,
}


def test_the_other_references_have_no_mutants() -> None:
    without = {name for name, task in TASKS.items() if not any(mutants(task.reference, "ref_kernel"))}
    assert without == STEP_BY_STEP.keys() | WITHOUT


@pytest.mark.parametrize("name", sorted(TASKS.keys() - WITHOUT))
def test_a_mutant_of_the_reference_fails_a_test(name: str) -> None:
    task = TASKS[name]
    board = task.board("CPU")
    reference = Reference(board)
    inputs = [reference.generate(case.params, _seed(case)) for case in board.tests]
    accepted, equivalent = [], dict(EQUIVALENT.get(name, {}))
    for statement, source in _mutants_of(task):
        files = {**task.files, "reference.py": source.encode()}
        mutant = replace(board, task=replace(task, files=files))
        if not any(_fails(mutant, reference, data) for data in inputs):
            known = next((part for part in equivalent if part in statement), None)
            accepted += [statement] if known is None else []
            equivalent.pop(known, None)
    assert not accepted, "add tests to task.yml, or a reason to EQUIVALENT"
    assert not equivalent, "these mutants fail now, or do not exist"


def _seed(case: Case) -> int:
    assert case.public_seed is not None
    return case.public_seed


def _fails(mutant: Board, reference: Reference, data: Any) -> bool:
    try:
        output = Reference(mutant).compute(data)
    except (TaskError, JudgeError):  # a JudgeError: it needs more memory than there is
        return True
    return bool(reference.objection(copy.deepcopy(data), output))


def _mutants_of(task: Task) -> Iterator[tuple[str, str]]:
    """The changed statement, and reference.py with it."""
    if task.name not in STEP_BY_STEP:
        yield from mutants(task.reference, "ref_kernel")
        return
    example = (task.folder / "examples/accepted" / STEP_BY_STEP[task.name]).read_text()
    for statement, source in mutants(example, "custom_kernel"):
        yield statement, f"{task.reference}\n{source}\nref_kernel = custom_kernel\n"


def mutants(source: str, entry: str) -> Iterator[tuple[str, str]]:
    """All mutants of the function `entry` and the functions that it calls: the changed statement, and the source."""
    tree = ast.parse(source)
    for function in _reachable(tree, entry):
        for statement in function.body:
            for node in ast.walk(statement):
                for field, value in _changes(node):
                    before = getattr(node, field)
                    setattr(node, field, value)
                    yield ast.unparse(statement), ast.unparse(tree)
                    setattr(node, field, before)


def _reachable(tree: ast.Module, entry: str) -> list[ast.FunctionDef]:
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    found, names = [], [entry]
    for name in names:  # grows while it is read
        if function := functions.pop(name, None):
            found.append(function)
            names += [node.id for node in ast.walk(function) if isinstance(node, ast.Name)]
    return found


def _changes(node: ast.AST) -> Iterator[tuple[str, Any]]:
    """The fields of a node to change, with their new values."""
    operator = getattr(node, "op", None)
    if type(operator) in _SWAPPED:
        yield "op", _SWAPPED[type(operator)]()
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _SWAPPED:
        yield "ops", [_SWAPPED[type(node.ops[0])](), *node.ops[1:]]
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield "value", not node.value
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        yield "value", node.value + 1
        yield "value", node.value - 1
