"""The checker: right and wrong outputs, the messages for participants, and faults of the task itself."""

import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
import torch

from harness.records.errors import JudgeError, TaskError
from harness.records.fields import CaseKind
from harness.reference.checker import _are_all_close, _is_close, compare
from harness.reference.reference import Reference, Returned
from harness.reference.uninitialised import FillUninitialised
from harness.task.task import Board, Case, load_task
from tests.properties import given, st

NAN, INF = float("nan"), float("inf")

GENERATE = """\
def generate_input(size, seed):
    torch.manual_seed(seed)
    return torch.randn(size)
"""
KERNEL = """\
def ref_kernel(data):
    return 2 * data
"""
CHECK = """\
def check_implementation(data, output):
    return compare(output, ref_kernel(data), rtol=1e-3, atol=1e-6)
"""
TASK_YML = """\
title: Doubling
description: Double every number.
lang: py
gpus: [CPU]
tests: [{size: 8, seed: 1}]
benchmarks: [{size: 8, seed: 1}]
"""
EXAMPLE = "def custom_kernel(data):\n    return data\n"
CASE = {"size": 8, "seed": 1}


def board(folder: Path, *parts: str, **shared: str) -> Board:
    """A board whose reference.py consists of `parts`, after two lines of imports."""
    reference = "import torch\nfrom harness.reference.checker import compare\n" + "".join(
        parts or (GENERATE, KERNEL, CHECK)
    )
    files = {"task.yml": TASK_YML, "reference.py": reference, "task.py": "", "template.py": EXAMPLE}
    files |= {f"{name}.py": content for name, content in shared.items()}
    files |= {f"examples/{verdict}/it.py": EXAMPLE for verdict in ("accepted", "wrong_answer")}
    for name, content in files.items():
        path = folder / "doubling" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return replace(load_task(folder / "doubling"), shown="tasks/doubling").board("CPU")


def tensor(*values: Any, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.tensor(values, dtype=dtype)


RIGHT = {
    "equal": (tensor(1, 2), tensor(1, 2)),
    "within the tolerance": (tensor(1.0009), tensor(1)),
    "nan where nan is expected": (tensor(NAN, 1), tensor(NAN, 1)),
    "the same infinities": (tensor(INF, -INF), tensor(INF, -INF)),
    "empty": (torch.empty(0, 3), torch.empty(0, 3)),
    "without dimensions": (torch.tensor(2.0), torch.tensor(2.0)),
    "a list for a tuple": ([tensor(1), {"x": tensor(2)}], (tensor(1), {"x": tensor(2)})),
    "keys in another order": ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    "scalars": ((1, 2.0004, True, "text", None), (1, 2.0, True, "text", None)),
    "a nan scalar": (NAN, NAN),
    "another layout in memory": (torch.arange(6.0).view(2, 3).t(), torch.arange(6.0).view(2, 3).t().contiguous()),
    "a stride of zero": (torch.ones(1).expand(5), torch.ones(5)),
    "float8": (tensor(1, 2).to(torch.float8_e4m3fn), tensor(1, 2).to(torch.float8_e4m3fn)),
    "half": (tensor(1, 2, dtype=torch.float16), tensor(1.0005, 2, dtype=torch.float16)),
    "bfloat16": (tensor(1, dtype=torch.bfloat16), tensor(1, dtype=torch.bfloat16)),
    "a complex number that is close beside a nan": (
        tensor(complex(1.0000001, NAN), dtype=torch.complex64),
        tensor(complex(1, NAN), dtype=torch.complex64),
    ),
    "a complex number with a nan": (tensor(complex(1, NAN), dtype=torch.complex64),) * 2,
    "complex": (tensor(1 + 1j, dtype=torch.complex64), tensor(1 + 1.001j, dtype=torch.complex64)),
    "a conjugate": (tensor(1 + 1j, dtype=torch.complex128), tensor(1 - 1j, dtype=torch.complex128).conj()),
    "one row of a column": (torch.ones(1, 5)[:, 0], torch.ones(1)),
    "one byte of a column": (torch.ones(1, 5, dtype=torch.int8)[:, 0], torch.ones(1, dtype=torch.int8)),
    "every second of no elements": (torch.ones(4)[::2][:0], torch.ones(0)),
    "a part of a larger tensor": (torch.arange(9, dtype=torch.int16)[1:8], torch.arange(1, 8, dtype=torch.int16)),
}


@pytest.mark.parametrize("pair", RIGHT.values(), ids=RIGHT)
def test_a_correct_output_is_accepted(pair: tuple[Any, Any]) -> None:
    assert compare(*pair, rtol=1e-3, atol=0) == (True, "")


WRONG = {
    "None": (None, tensor(1, 2), "custom_kernel returned None; the task expects a tensor of shape (2,), dtype float32"),
    "another class": (object(), tensor(1), "returned an object; the task expects a tensor of shape (1,)"),
    "a scalar for a tensor": (1.0, tensor(1), "custom_kernel returned a float; the task expects a tensor"),
    "a tensor for a scalar": (tensor(1), 1.0, "a tensor of shape (1,), dtype float32; the task expects a float"),
    "a bool for an int": (True, 1, "custom_kernel returned a bool; the task expects an int"),
    "numpy": (tensor(1).numpy(), tensor(1), "custom_kernel returned a ndarray; the task expects a tensor"),
    "a tensor for a tuple": (tensor(1), (tensor(1),), "the task expects a tuple of length 1"),
    "too few items": ((tensor(1),), (tensor(1), 2), "output has length 1; the task expects 2"),
    "too many items": ((tensor(1), 2), (tensor(1),), "output has length 2; the task expects 1"),
    "other keys": ({"a": 1}, {"b": 1}, "output has the keys 'a'; the task expects 'b'"),
    "None inside": ((1, None), (1, tensor(1)), "output[1] is None; the task expects a tensor"),
    "a shape that broadcasts": (tensor(1), torch.ones(2, 1), "output has shape (1,), expected (2, 1)"),
    "an empty tensor": (torch.empty(0), torch.ones(2), "output has shape (0,), expected (2,)"),
    "dtype": (tensor(1, dtype=torch.float64), tensor(1), "output has dtype float64, expected float32"),
    "shape and dtype": (tensor(1, dtype=torch.int64), tensor(1.0, 2), "(1,), expected (2,) and dtype int64, expected"),
    "sparse": (tensor(1).to_sparse(), tensor(1), "layout torch.sparse_coo; the task expects torch.strided"),
    "a value": (tensor(1, 2), tensor(1, 3), "output[1] is 2.0000, expected 3.0000 (allowed 0.003); 1 of 2 differ"),
    "without dimensions": (torch.tensor(1.0), torch.tensor(2.0), "output is 1.0000, expected 2.0000 (allowed 0.002)"),
    "a place in a matrix": (torch.zeros(2, 3), tensor([0, 0, 0], [0, 0, 1]), "output[1, 2] is 0.0000, expected 1.0"),
    "a nan": (tensor(1, NAN), tensor(1, 3), "output[1] is nan, expected 3.0000"),
    "a number for a nan": (tensor(3), tensor(NAN), "output[0] is 3.0000, expected nan"),
    "a number for an infinity": (tensor(3), tensor(INF), "output[0] is 3.0000, expected inf"),
    "an infinity for a number": (tensor(INF), tensor(3), "output[0] is inf, expected 3.0000"),
    "the other infinity": (tensor(-INF), tensor(INF), "output[0] is -inf, expected inf"),
    "another number than a conjugate": (
        tensor(1 + 1j, dtype=torch.complex128),
        tensor(1 - 2j, dtype=torch.complex128).conj(),
        "output[0] is",
    ),
    "another real part beside a nan": (
        tensor(complex(2, NAN), dtype=torch.complex64),
        tensor(complex(1, NAN), dtype=torch.complex64),
        "is 2.0000+nanj, expected",
    ),
    "a nan for an infinity": (tensor(NAN), tensor(INF), "output[0] is nan, expected inf"),
    "a scalar": ((1.5,), (2.5,), "output[0] is 1.5000, expected 2.5000 (allowed 0.0025)"),
    "text": ("a", "b", "output is 'a', expected 'b'"),
    "a large integer": (2**63 - 1, 2**63 - 2, "output is 9223372036854775807, expected 9223372036854775806"),
    "int64, exactly": (tensor(2**62, dtype=torch.int64), tensor(2**62 + 1, dtype=torch.int64), "expected 461168601842"),
    "uint16": (tensor(1, dtype=torch.uint16), tensor(2, dtype=torch.uint16), "output[0] is 1, expected 2"),
    "bool": (tensor(True, dtype=torch.bool), tensor(False, dtype=torch.bool), "output[0] is True, expected False"),
    "complex": (tensor(1j, dtype=torch.complex64), tensor(2j, dtype=torch.complex64), "is 0.0000+1.0000j, expected"),
    "float4": (
        torch.zeros(2, dtype=torch.uint8).view(torch.float4_e2m1fn_x2),
        torch.ones(2, dtype=torch.uint8).view(torch.float4_e2m1fn_x2),
        "output[0] is 0, expected 1; 2 of 2 differ",
    ),
    "deep down": ([{"x": tensor(1, 2)}], ({"x": tensor(1, 9)},), "output[0]['x'][1] is 2.0000, expected 9.0000"),
}


@pytest.mark.parametrize(("output", "expected", "message"), WRONG.values(), ids=WRONG)
def test_a_wrong_output_is_reported_with_place_and_numbers(output: Any, expected: Any, message: str) -> None:
    right, said = compare(output, expected, rtol=1e-3, atol=0)
    assert not right
    assert message in said


def test_the_relative_tolerance_applies_to_the_expected_value() -> None:
    assert compare(tensor(1.4), tensor(1.0), rtol=0.35, atol=0)[0] is False
    assert compare(tensor(1.0), tensor(1.4), rtol=0.35, atol=0)[0] is True


def test_a_tolerance_is_one_number():
    with pytest.raises(TypeError, match="one number as rtol"):
        compare(tensor(1.0), tensor(1.0), rtol=tensor([0.1, 0.2]), atol=0)


def test_numbers_are_printed_with_enough_digits_to_distinguish_them() -> None:
    _, said = compare(tensor(1.0, dtype=torch.float64), tensor(1 + 1e-12, dtype=torch.float64), rtol=0, atol=0)
    assert said == "output[0] is 1.0000000000000000, expected 1.0000000000010001 (allowed 0)"


def test_elements_of_all_chunks_are_counted() -> None:
    output, expected = torch.zeros(200_000), torch.zeros(200_000)
    expected[[70_000, 140_000, 199_999]] = 1
    assert compare(output, expected, rtol=0, atol=0.5)[1].startswith("output[70000] is 0.0000")
    assert compare(output, expected, rtol=0, atol=0.5)[1].endswith("; 3 of 200000 differ")


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.int64, torch.complex128])
@pytest.mark.parametrize("place", [0, 7, 8, 9, 10])
def test_one_different_element_is_found_wherever_it_is(dtype: torch.dtype, place: int) -> None:
    output, expected = torch.zeros(11, dtype=dtype), torch.zeros(11, dtype=dtype)
    output[place] = 1
    assert compare(output, expected, rtol=0, atol=0)[1].startswith(f"output[{place}] is 1")


NUMBERS = st.sampled_from([0.0, 1.0, -1.0, 1.001, 1e300, 1e-320, 5e-324, INF, -INF, NAN])
TOLERANCES = st.sampled_from([0.0, 1e-3, 1.0, 1e10, INF])


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=3), TOLERANCES, TOLERANCES)
def test_the_fast_comparison_accepts_nothing_that_the_exact_one_does_not(
    pairs: list[tuple[float, float]], rtol: float, atol: float
) -> None:
    output, expected = torch.tensor(pairs, dtype=torch.float64).T
    is_close = _is_close(output, expected, rtol, atol).all()
    assert is_close or not _are_all_close(output, expected, rtol, atol)


def test_the_fast_comparison_accepts_finite_numbers_within_the_tolerance() -> None:
    assert _are_all_close(tensor(1.0009, -2.0), tensor(1.0, -2.001), rtol=1e-3, atol=0)


def test_a_participant_may_return_a_tensor_that_requires_grad() -> None:
    assert compare(tensor(1).requires_grad_(), tensor(1), rtol=0, atol=0) == (True, "")


def test_the_reference_accepts_its_own_answer_and_names_a_wrong_element(tmp_path: Path) -> None:
    reference = Reference(board(tmp_path))
    data = reference.generate(CASE, 7)
    assert reference.check(data, reference.compute(data)) == ""
    assert reference.check(data, data * 2.1).startswith("output[0] is ")


def test_the_secret_seed_decides_the_inputs_and_replaces_the_public_one(tmp_path: Path) -> None:
    reference = Reference(board(tmp_path))
    assert torch.equal(reference.generate(CASE, 7), reference.generate({"size": 8, "seed": 2}, 7))
    assert not torch.equal(reference.generate(CASE, 7), reference.generate(CASE, 8))


def test_a_generator_without_a_seed_argument_gets_fresh_global_seeds(tmp_path: Path) -> None:
    generate = """\
import random
import numpy
def generate_input(size):
    return torch.randn(size), random.random(), float(numpy.random.rand())
"""
    kernel = "def ref_kernel(data): return 2 * data[0]\n"
    reference = Reference(board(tmp_path, generate, kernel, CHECK))
    reference.probe({"size": 8})
    same, other = reference.generate({"size": 8}, 2**62), reference.generate({"size": 8}, 5)
    assert compare(reference.generate({"size": 8}, 2**62), same, rtol=0, atol=0)[0]
    assert same[1] != other[1] and same[2] != other[2]


FORMS = {
    "a message": "def check_implementation(data, output): return '' if torch.equal(output, 2 * data) else 'no'\n",
    "a bool and a message": "def check_implementation(data, output): return torch.equal(output, 2 * data), 'no'\n",
    "a tensor's truth": "def check_implementation(data, output): return (output == 2 * data).all(), 'no'\n",
    "numpy's truth": "def check_implementation(data, output): return (output == 2 * data).numpy().all(), 'no'\n",
    "the oldest": "def check_implementation(mine, reference_output): return torch.equal(mine, reference_output)\n",
    "the oldest, other names": "def check_implementation(output, expected): return torch.equal(output, expected)\n",
    "a lambda": "check_implementation = lambda data, output: torch.equal(output, 2 * data)\n",
}


def test_a_task_that_seeds_torch_does_not_seed_gpus_that_the_board_never_uses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    generate = "def generate_input(seed):\n    torch.manual_seed(seed)\n    return torch.rand(4)\n"
    reference = Reference(board(tmp_path, generate, KERNEL, CHECK))
    monkeypatch.setattr(torch.cuda, "manual_seed_all", None)
    assert torch.equal(reference.generate({}, 7), torch.rand(4, generator=torch.Generator().manual_seed(7)))


def test_a_reference_leaves_torchs_seeding_as_it_was(tmp_path: Path) -> None:
    usual = torch.manual_seed
    Reference(board(tmp_path)).generate(CASE, 7)
    assert torch.manual_seed is torch.random.manual_seed is usual


@pytest.mark.parametrize("check", FORMS.values(), ids=FORMS)
def test_all_forms_of_a_check_are_understood(tmp_path: Path, check: str) -> None:
    reference = Reference(board(tmp_path, GENERATE, KERNEL, check))
    data = reference.generate(CASE, 7)
    assert reference.check(data, 2 * data) == ""
    assert reference.check(data, 3 * data) != ""


CHANGES_INPUTS = {
    "the check": (KERNEL, "def check_implementation(data, output): return torch.equal(output, data.mul_(2)), 'no'\n"),
    "the reference": ("def ref_kernel(data): return data.mul_(2)\n", FORMS["the oldest"]),
}


@pytest.mark.parametrize(("kernel", "check"), CHANGES_INPUTS.values(), ids=CHANGES_INPUTS)
def test_a_check_gets_the_inputs_themselves_if_they_can_be_generated_again(
    tmp_path: Path, kernel: str, check: str
) -> None:
    reference = Reference(board(tmp_path, GENERATE, kernel, check))
    inputs = [reference.generate(CASE, 7) for _ in range(3)]
    right, regenerate = 2 * inputs[0], MagicMock(side_effect=lambda: reference.generate(CASE, 7))
    assert reference.check(inputs[0], right) == "" and not torch.equal(inputs[0], right)
    assert reference.check(inputs[1], right, regenerate) == "" and torch.equal(inputs[1], right)
    regenerate.assert_not_called()
    assert reference.check(inputs[2], 3 * right, regenerate)
    assert regenerate.call_count == 2


def test_a_check_that_changes_the_inputs_and_raises_is_explained_with_new_ones(tmp_path: Path) -> None:
    kernel = "def ref_kernel(data):\n    assert data.any()\n    return 2 * data\n"
    check = "def check_implementation(data, output): return torch.equal(2 * data, output + 0 * data.zero_()), 'no'\n"
    reference = Reference(board(tmp_path, GENERATE, kernel, check))
    said = reference.check(reference.generate(CASE, 7), torch.zeros(7), lambda: reference.generate(CASE, 7))
    assert said == "output has shape (7,), expected (8,)"


def test_a_bare_false_is_explained_by_comparison_with_the_reference(tmp_path: Path) -> None:
    reference = Reference(board(tmp_path, GENERATE, KERNEL, FORMS["the oldest"]))
    data = reference.generate(CASE, 7)
    assert "; compared with the reference, output[0] is " in reference.check(data, 3 * data)


def test_an_output_that_crashes_the_check_is_a_wrong_answer(tmp_path: Path) -> None:
    check = "def check_implementation(data, output): return '' if (output - 2 * data).abs().max() < 1 else 'no'\n"
    reference = Reference(board(tmp_path, GENERATE, KERNEL, check))
    data = reference.generate(CASE, 7)
    assert reference.check(data, None).startswith(
        "custom_kernel returned None; the task expects a tensor of shape (8,)"
    )
    assert reference.check(data, torch.zeros(7)) == "output has shape (7,), expected (8,)"


FULL = """\
import weakref
held = None
def ref_kernel(data):
    if held and held() is not None:
        raise torch.cuda.OutOfMemoryError("the check's differences are still there")
    return 2 * data
def check_implementation(data, output):
    global held
    differences = output - 2 * data
    held = weakref.ref(differences)
    if differences.dim() > 1 or output.dtype is torch.float64:
        raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 64.00 GiB.")
    raise ValueError("out of memory, says the output") if output.shape == data.shape else AssertionError
"""


def test_an_output_of_another_shape_is_wrong_even_if_the_checks_answer_is_then_none(tmp_path: Path) -> None:
    """`==` returns one truth for a number, and two for a tensor of two."""
    kernel = "def ref_kernel(data): return data.sum()\n"
    check = "def check_implementation(data, output): return output == data.sum()\n"
    reference = Reference(board(tmp_path, GENERATE, kernel, check))
    data = reference.generate(CASE, 7)
    assert reference.check(data, data.sum()) == ""
    assert reference.check(data, data[:2]) == "output has shape (2,), expected ()"


def test_an_output_whose_shape_exhausts_gpu_memory_is_a_wrong_answer(tmp_path: Path) -> None:
    reference = Reference(
        board(tmp_path, GENERATE, FULL), "meta"
    )  # torch's device without memory, which acts like a full one
    data = reference.generate(CASE, 7)
    assert reference.objection(data, torch.zeros(8, 1, device="meta")) == "output has shape (8, 1), expected (8,)"
    assert reference.objection(data, torch.zeros(8, device="meta")) == (
        "the task's check rejects this output: ValueError: out of memory, says the output"
    )


def test_a_correctly_shaped_output_that_exhausts_gpu_memory_is_a_judging_error(tmp_path: Path) -> None:
    reference = Reference(board(tmp_path, GENERATE.replace("size)", "size, dtype=torch.float64)"), FULL), "meta")
    data = reference.generate(CASE, 7)
    with pytest.raises(JudgeError, match="check_implementation ran out of the GPU memory that the player left"):
        reference.objection(data, 2 * data)


def test_a_check_that_rejects_the_reference_is_the_tasks_fault(tmp_path: Path) -> None:
    check = "def check_implementation(data, output): return 'never'\n"
    reference = Reference(board(tmp_path, GENERATE, KERNEL, check))
    data = reference.generate(CASE, 7)
    with pytest.raises(
        TaskError, match=r"reference\.py:8: check_implementation rejects the output of ref_kernel itself"
    ):
        reference.check(data, data)


def test_the_tasks_code_cannot_change_the_pristine_inputs(tmp_path: Path) -> None:
    check = "def check_implementation(data, output):\n    data.zero_()\n    return ''\n"
    kernel = "def ref_kernel(data): return data.mul_(2)\n"
    reference = Reference(board(tmp_path, GENERATE, kernel, check))
    data = reference.generate(CASE, 7)
    before = data.clone()
    reference.compute(data)
    reference.check(data, data)
    assert torch.equal(data, before)


def test_only_the_tasks_code_can_import_its_shared_files(tmp_path: Path) -> None:
    generate = "from task import kind\nfrom utils import factor\n" + GENERATE
    kernel = "def ref_kernel(data):\n    from utils import late\n    return late(data)\n"
    utils = "from task import kind\nfactor = 2\ndef late(data): return factor * data\n"
    before = {name: sys.modules.get(name) for name in ("task", "utils", "reference")}
    reference = Reference(board(tmp_path, generate, kernel, CHECK, task="kind = int\n", utils=utils))
    assert torch.equal(reference.compute(tensor(1)), tensor(2))
    assert {name: sys.modules.get(name) for name in before} == before


def test_two_tasks_do_not_share_their_modules(tmp_path: Path) -> None:
    kernel = "from task import factor\ndef ref_kernel(data): return factor * data\n"
    two, three = (
        Reference(board(tmp_path / str(factor), GENERATE, kernel, CHECK, task=f"factor = {factor}\n"))
        for factor in (2, 3)
    )
    assert [float(reference.compute(tensor(1))) for reference in (two, three, two)] == [2, 3, 2]


LOADING = {
    "what only a compiler refuses": ("return 1\n", r"reference\.py:3: .*SyntaxError"),
    "an import that fails": ("import no_such_module\n", r"reference\.py:3: .*No module named 'no_such_module'"),
    "an exit": ("raise SystemExit(3)\n", r"reference\.py:3: .*SystemExit: 3"),
    "a missing function": (GENERATE + KERNEL, r"reference\.py:1: check_implementation is missing"),
    "a function whose arguments Python does not know": (
        GENERATE + KERNEL + "check_implementation = torch.allclose\n",
        r"reference\.py:1: check_implementation: ValueError: no signature found",
    ),
}


@pytest.mark.parametrize(("source", "message"), LOADING.values(), ids=LOADING)
def test_a_reference_that_cannot_be_loaded_is_named_with_its_line(tmp_path: Path, source: str, message: str) -> None:
    with pytest.raises(TaskError, match=r"^tasks/doubling/" + message):
        Reference(board(tmp_path, source))


FAULTS = {
    "a generator that raises": (
        ("def generate_input(size, seed):\n    return 1 / 0\n", KERNEL, CHECK),
        r"reference\.py:4: generate_input: ZeroDivisionError: division by zero",
    ),
    "a generator without such an argument": (
        ("def generate_input(sizes, seed):\n    return torch.randn(sizes)\n", KERNEL, CHECK),
        r"reference\.py:3: generate_input: TypeError: .*unexpected keyword argument 'size'",
    ),
    "a generator that wants CUDA": (
        ("def generate_input(size, seed):\n    return torch.randn(size, device='cuda')\n", KERNEL, CHECK),
        r"reference\.py:4: generate_input: .*; this board runs on the CPU: do not name a device",
    ),
    "an input that cannot cross": (
        ("def generate_input(size, seed):\n    return [torch.randn(size), object()]\n", KERNEL, CHECK),
        r"reference\.py:3: generate_input returns a value that cannot be sent to a player: object",
    ),
    "a reference that raises": (
        (GENERATE, "def ref_kernel(data):\n    return data + torch.zeros(3)\n", CHECK),
        r"reference\.py:7: ref_kernel: RuntimeError",
    ),
    "a reference that returns another type": (
        (GENERATE, "def ref_kernel(data):\n    return {1, 2}\n", CHECK),
        r"reference\.py:6: ref_kernel returns a value that cannot be sent to a player: set",
    ),
    "a reference that changes its input": (
        (GENERATE, "def ref_kernel(data):\n    data += 1\n    return data * 2\n", CHECK),
        r"reference\.py:6: ref_kernel changes its input data; copy it first, or return it",
    ),
    "a reference that adds a key to its input": (
        (
            "def generate_input(size, seed):\n    return {'x': torch.randn(size)}\n",
            "def ref_kernel(data):\n    data['y'] = data['x'] * 2\n    return data['y']\n",
            CHECK,
        ),
        r"reference\.py:5: ref_kernel adds values to its input; copy it first",
    ),
    "a reference that puts a list into its input": (
        (
            "def generate_input(size, seed):\n    return {'x': torch.randn(size), 'factor': 2}\n",
            "def ref_kernel(data):\n    data['factor'] = [2]\n    return data['x'] * 2\n",
            CHECK,
        ),
        r"reference\.py:5: ref_kernel adds values to its input; copy it first",
    ),
    "a check that returns neither form": (
        (GENERATE, KERNEL, "def check_implementation(data, output):\n    return None\n"),
        r"reference\.py:8: check_implementation returns None; it must return str or \(bool, str\)",
    ),
    "a check that raises": (
        (GENERATE, KERNEL, "def check_implementation(data, output):\n    raise ValueError('x')\n"),
        r"reference\.py:9: check_implementation: ValueError: x",
    ),
    "a check that refuses the reference": (
        (GENERATE, KERNEL, "def check_implementation(data, output):\n    return False, 'too blue'\n"),
        r"reference\.py:8: check_implementation rejects the output of ref_kernel itself: too blue",
    ),
}


@pytest.mark.parametrize(("parts", "message"), FAULTS.values(), ids=FAULTS)
def test_a_probe_names_file_and_line_of_the_tasks_fault(tmp_path: Path, parts: tuple[str, ...], message: str) -> None:
    reference = Reference(board(tmp_path, *parts))
    with pytest.raises(TaskError, match=r"^tasks/doubling/" + message):
        reference.probe(CASE)


def test_a_fault_in_a_shared_file_names_that_file(tmp_path: Path) -> None:
    kernel = "from utils import late\ndef ref_kernel(data): return late(data)\n"
    reference = Reference(board(tmp_path, GENERATE, kernel, CHECK, utils="def late(data):\n    return data.nothing\n"))
    with pytest.raises(TaskError, match=r"^tasks/doubling/utils\.py:2: ref_kernel: AttributeError"):
        reference.probe(CASE)


@pytest.mark.parametrize(
    ("tests", "benchmarks", "is_enough"),
    [("cv", "v", True), ("v", "vv", True), ("cc", "v", False), ("vv", "vc", False), ("cv", "", True), ("", "v", True)],
)
def test_every_benchmark_and_at_least_one_test_must_vary_with_the_seed(
    tmp_path: Path, tests: str, benchmarks: str, is_enough: bool
) -> None:
    generate = "def generate_input(kind, seed):\n    return torch.eye(3) if kind == 'c' else torch.randn(3, 3)\n"
    reference = Reference(board(tmp_path, generate, KERNEL, CHECK))
    cases = [Case(kind=CaseKind.TEST, params={"kind": kind, "seed": 1}) for kind in tests]
    cases += [Case(kind=CaseKind.BENCHMARK, params={"kind": kind, "seed": 1}) for kind in benchmarks]
    probed = [(case, reference.probe(case.params)) for case in cases]
    fault = pytest.raises(TaskError, match=r"reference\.py:3: generate_input returns the same values for every seed")
    with nullcontext() if is_enough else fault:
        reference.require_variety(probed)


SOUND = {
    "an output buffer in the input": (
        "def generate_input(size, seed):\n    return torch.randn(size), torch.empty(size)\n",
        "def ref_kernel(data):\n    torch.mul(data[0], 2, out=data[1])\n    return data[1]\n",
        "def check_implementation(data, output):\n    return compare(output, 2 * data[0], rtol=0, atol=0)\n",
    ),
    "an output that aliases its input": (GENERATE, "def ref_kernel(data):\n    return data.mul_(2)\n", CHECK),
    "inputs with nan": (
        "def generate_input(size, seed):\n    return torch.cat([torch.randn(size), torch.tensor([float('nan')])])\n",
        KERNEL,
        CHECK,
    ),
    "a reference that takes a value from its input": (
        "def generate_input(size, seed):\n    return [torch.randn(size), 2]\n",
        "def ref_kernel(data):\n    return data.pop() * data[0]\n",
        CHECK,
    ),
    "an output of views and scalars": (
        GENERATE,
        "def ref_kernel(data):\n    return {'view': data[::2], 'sum': float(data.sum()), 'none': None}\n",
        CHECK,
    ),
    "inputs that need gradients": (
        "def generate_input(size, seed):\n    return torch.randn(size, requires_grad=True) * 2\n",
        KERNEL,
        CHECK,
    ),
}


@pytest.mark.parametrize("parts", SOUND.values(), ids=SOUND)
def test_a_probe_lets_sound_tasks_pass(tmp_path: Path, parts: tuple[str, ...]) -> None:
    assert Reference(board(tmp_path, *parts)).probe(CASE)


def test_an_output_buffer_is_distinguished_from_an_input_changed_in_place(tmp_path: Path) -> None:
    buffer = Reference(board(tmp_path / "buffer", *SOUND["an output buffer in the input"]))
    in_place = Reference(board(tmp_path / "in_place", *SOUND["an output that aliases its input"]))
    assert buffer.returned(CASE) == Returned(frozenset({1}), ())
    assert in_place.returned(CASE).buffers == frozenset()


ACCUMULATORS = {
    "a sum": ("torch.zeros(size, dtype=torch.int64)", "data[1].add_(data[0])"),
    "a sum of one number": ("torch.zeros(1)", "data[1].add_(data[0].sum())"),
    "a product": ("torch.ones(size, dtype=torch.int64)", "data[1].mul_(data[0])"),
    "a product of complex numbers": ("torch.ones(size, dtype=torch.complex64)", "data[1].mul_(data[0])"),
    "a maximum": ("torch.zeros(size, dtype=torch.int64)", "data[1].clamp_(min=data[0])"),
    "a maximum without sign": ("torch.zeros(size, dtype=torch.uint8)", "data[1].clamp_(min=data[0].to(torch.uint8))"),
    "a maximum that ignores NaN": ("torch.zeros(size)", "torch.fmax(data[0].float(), data[1], out=data[1])"),
    "a minimum": ("torch.full((size,), 100)", "data[1].clamp_(max=data[0])"),
    "a maximum of one number": ("torch.zeros(1, dtype=torch.int64)", "data[1].clamp_(min=data[0].max())"),
    "a minimum of one number that ignores NaN": (
        "torch.full((1,), 100.0)",
        "torch.fmin(data[0].float().min(), data[1], out=data[1])",
    ),
    "a conjunction": ("torch.ones(size, dtype=torch.bool)", "data[1].logical_and_(data[0] > 4)"),
    "places": ("torch.arange(size)", "data[0][data[1]], data[1]"),
    "a place to write to": ("torch.tensor([3])", "data[0].index_fill_(0, data[1], 0), data[1].add_(1)"),
    "a number of repetitions": ("torch.tensor([3])", "data[0].repeat(int(data[1])), data[1]"),
}


@pytest.mark.parametrize(("begin", "answer"), ACCUMULATORS.values(), ids=ACCUMULATORS)
def test_a_buffer_that_is_read_before_it_is_written_is_an_input(tmp_path: Path, begin: str, answer: str) -> None:
    generate = f"def generate_input(size, seed):\n    return torch.randint(2, 9, (size,)), {begin}\n"
    kernel = f"def ref_kernel(data):\n    return {answer}\n"
    check = "def check_implementation(data, output):\n    return compare(output, ref_kernel(data), rtol=0.01, atol=0)\n"
    assert not Reference(board(tmp_path, generate, kernel, check)).returned(CASE).buffers


@pytest.mark.parametrize("dtype", ["bool", "complex64", "int8", "uint64", "float8_e4m3fn", "bfloat16"])
@pytest.mark.parametrize("form", ["torch.zeros(size, dtype=dtype)", "torch.ones(2 * size).to(dtype)[1::2]"])
def test_an_output_buffer_may_have_any_dtype_and_stride(tmp_path: Path, dtype: str, form: str) -> None:
    generate = f"def generate_input(size, seed):\n    dtype = torch.{dtype}\n    return torch.randn(size), {form}\n"
    kernel = "def ref_kernel(data):\n    return data[1].copy_(data[0].to(data[1].dtype))\n"
    assert Reference(board(tmp_path, generate, kernel, CHECK)).returned(CASE) == Returned(frozenset({1}), ())


def test_an_output_buffer_may_have_numbers_of_four_bits(tmp_path: Path) -> None:
    generate = """\
def generate_input(size, seed):
    data = torch.randint(0, 256, (size,), dtype=torch.uint8)
    return data, torch.zeros_like(data).view(torch.float4_e2m1fn_x2)
"""
    kernel = """\
def ref_kernel(data):
    data[1].view(torch.uint8).copy_(data[0])
    return data[1]
"""
    check = """\
def check_implementation(data, output):
    return torch.equal(output.view(torch.uint8), data[0]), 'wrong'
"""
    assert Reference(board(tmp_path, generate, kernel, check)).returned(CASE) == Returned(frozenset({1}), ())


def test_memory_left_unwritten_by_a_generator_gets_a_fixed_fill(tmp_path: Path) -> None:
    generate = """\
def generate_input(size, seed):
    data = torch.randn(size)
    torch.full((size,), 7.0)  # its memory is free again, and 7 lies in it
    counts = torch.empty(size, dtype=torch.int32)
    return data, torch.empty(size), torch.empty_like(data), data.new_empty(size), counts
"""
    kernel = "def ref_kernel(data):\n    return 2 * data[0]\n"
    reference = Reference(board(tmp_path, generate, kernel, CHECK))
    data, *unwritten = reference.generate(CASE, 1)
    assert torch.isfinite(data).all()
    assert all(tensor.isnan().all() for tensor in unwritten[:3])
    assert unwritten[3].tolist() == [-1] * len(data)


def test_new_and_resized_tensors_are_filled_but_keep_written_values() -> None:
    data = torch.ones(4)
    with FillUninitialised():
        made = [data.new(64), data.new(8, 8), data.new(torch.Size([8, 8])), data.new(size=(8, 8))]
        grown = [torch.ones(4).resize_(64), torch.ones(4).resize_as_(made[1]), torch.ones(4, dtype=bool).resize_(64)]
        copies = [data.new([1.0, 2.0]), data.new(data)]
        shrunk = torch.ones(4).resize_(2)
    assert all(tensor.isnan().all() for tensor in made)
    assert all((one.flatten()[:4] == 1).all() for one in grown)
    assert all(one.flatten()[4:].isnan().all() for one in grown[:2]) and grown[2].view(torch.uint8).sum() == 64
    assert [copy.tolist() for copy in copies] == [[1, 2], [1, 1, 1, 1]]
    assert shrunk.tolist() == [1, 1]


def test_sparse_and_meta_tensors_can_still_be_made() -> None:
    with FillUninitialised():
        sparse = torch.empty(3, 3, layout=torch.sparse_coo)
        assert torch.empty_like(sparse).layout is torch.sparse_coo
        assert torch.empty(3, device="meta").is_meta


@pytest.mark.parametrize("said", ["r'no\\nno'", "(False, r'no\\nno')"])
def test_escaped_newlines_in_a_checks_message_become_newlines(tmp_path: Path, said: str) -> None:
    check = f"def check_implementation(data, output):\n    return '' if output.any() else {said}\n"
    assert Reference(board(tmp_path, GENERATE, KERNEL, check)).check(torch.ones(8), torch.zeros(8)) == "no\nno"


def test_rarely_varying_and_empty_inputs_pass_the_probe(tmp_path: Path) -> None:
    coin = "def generate_input(size, seed):\n    return torch.rand(size) < 0.5\n"
    kernel = "def ref_kernel(data): return ~data\n"
    reference = Reference(board(tmp_path, coin, kernel, CHECK))
    assert reference.probe({"size": 1, "seed": 1})
    assert reference.probe({"size": 0, "seed": 1})
