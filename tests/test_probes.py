"""The faults that `task check` finds in a task: checks that accept too much, and unsuitable cases."""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from harness.records.errors import JudgeError
from harness.records.fields import CaseKind
from harness.reference.reference import Reference
from harness.task.task import Board, Case, load_task
from harness.task_check.estimate_memory import Fused, estimate_bytes
from harness.task_check.make_wrong_answers import in_form, in_one_element, lower_precision, rounded, wholesale
from harness.task_check.probe_reference import ProbeFinding, find_flaws
from scripts.common.terminal import Display, console
from scripts.tasks.check_board import check_board

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
    return compare(output, ref_kernel(data), rtol=1e-5, atol=1e-7)
"""
YML = "tests: [{size: 1, seed: 1}, {size: 40, seed: 2}]\nbenchmarks: [{size: 8, seed: 1}]\n"
EXAMPLE = "def custom_kernel(data):\n    return data\n"


def board(folder: Path, *parts: str, yml: str = "", description: str = "") -> Board:
    """A board whose reference.py consists of `parts`; by default, of correct ones."""
    given = {part.split("(")[0].removeprefix("def "): part for part in parts}
    right = {"generate_input": GENERATE, "ref_kernel": KERNEL, "check_implementation": CHECK}
    source = "import torch\nfrom harness.checker import compare\n" + "".join((right | given).values())
    files = {"task.yml": f"description: '{description}'\n{YML}{yml}", "task.py": "", "reference.py": source}
    files |= {f"examples/{verdict}/it.py": EXAMPLE for verdict in ("accepted", "wrong_answer")}
    for name, content in files.items():
        path = folder / "doubling" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return load_task(folder / "doubling").board("CPU")


def check(body: str) -> str:
    return f"def check_implementation(data, output):\n    right = ref_kernel(data)\n    {body}\n"


def flaws(found: list[ProbeFinding], *, faults: bool = True) -> set[str]:
    return {one.message for one in found if one.is_fault is faults}


def test_a_good_task_has_no_flaws(tmp_path: Path) -> None:
    assert find_flaws(board(tmp_path)) == []


def test_a_case_is_probed_on_its_own_seed_even_if_that_is_0(tmp_path: Path) -> None:
    generate = GENERATE.replace("torch.manual_seed(seed)", "torch.manual_seed(seed) if seed else torch.seed()")
    case = Case(kind=CaseKind.TEST, params={"size": 4, "seed": 0})
    found = find_flaws(replace(board(tmp_path, generate), tests=(case,)))
    assert any("different inputs for the same seed" in message for message in flaws(found))


ACCEPTED = {
    "a check that accepts everything": (check("return True, ''"), {
        "accepts only zeros", "accepts the mean everywhere", "accepts the input as output", "accepts None",
        "accepts an extra dimension", "accepts a missing last column", "accepts the dtype float64",
        "accepts only NaN", "accepts a wrong first element", "accepts NaN as the last element",
    }),
    "a check that only looks at the mean": (
        check("return compare(output.mean(), right.mean(), rtol=1e-3, atol=1e-3)"), {"accepts the mean everywhere"},
    ),
    "a check that a NaN gets through": (
        check("return not ((output - right).abs() > 1e-5).any().item(), ''"), {"accepts only NaN"},
    ),
    "a check that broadcasts": (check("return bool(torch.isclose(output, right).all()), ''"), {
        "accepts an extra dimension",
    }),
    "a check that widens": (check("return compare(output.float(), right, rtol=1e-5, atol=1e-7)"), {
        "accepts the dtype float64",
    }),
    "a check that leaves out the last": (check("return compare(output[:-1], right[:-1], rtol=1e-5, atol=1e-7)"), {
        "accepts a wrong last element", "accepts NaN as the last element",
    }),
    "a check that takes samples": (check("return compare(output[::39], right[::39], rtol=1e-5, atol=1e-7)"), {
        "accepts a wrong middle element", "accepts a wrong odd-placed element",
    }),
}  # fmt: skip


@pytest.mark.parametrize(("source", "messages"), ACCEPTED.values(), ids=ACCEPTED)
def test_a_check_that_accepts_a_wrong_answer_is_a_fault(source: str, messages: set[str], tmp_path: Path) -> None:
    found = flaws(find_flaws(board(tmp_path, source)))
    assert messages <= found, found


def test_a_check_that_crashes_on_wrong_numbers_causes_a_warning(tmp_path: Path) -> None:
    (found,) = find_flaws(board(tmp_path, check("return compare(output, right, rtol=0, atol=0)[0] or 1 // 0, ''")))
    assert not found.is_fault
    assert found.message == (
        "check_implementation itself fails on a wrong first element: ZeroDivisionError: integer division or modulo by "
        "zero; return (False, why) instead"
    )


def test_a_failed_assertion_counts_as_a_rejection(tmp_path: Path) -> None:
    source = check("assert compare(output, right, rtol=0, atol=0)[0], 'they differ'; return True, ''")
    assert find_flaws(board(tmp_path, source)) == []


def test_a_check_that_accepts_nothing_is_reported_once_with_its_line(tmp_path: Path) -> None:
    found = find_flaws(board(tmp_path, check("return False, 'no'")))
    assert [one.where for one in found] == ["size: 1, seed: 1"]
    place = f"{tmp_path}/doubling/reference.py:8"
    assert found[0].message == f"{place}: check_implementation rejects the output of ref_kernel itself: no"


RAISED = {
    "a missing package": ("import no_such_package\n" + KERNEL, "No module named 'no_such_package'"),
    "no seed": ("def generate_input(size, seed):\n    return torch.ones(size)\n", "the same values for every seed"),
    "a clock as seed": (
        "def generate_input(size, seed):\n    import time\n    torch.manual_seed(time.perf_counter_ns())\n"
        "    return torch.randn(size)\n",
        "returns different inputs for the same seed",
    ),
    "an argument too many": (GENERATE.replace("size,", "length,"), "unexpected keyword argument 'size'"),
    "a number": (KERNEL + "ref_kernel = 5\n", "ref_kernel is not a function, but an int"),
    "no input": ("def generate_input(size, seed):\n    pass\n", "generate_input returns None; is a `return` missing?"),
    "a generator": (GENERATE.replace("return", "yield"), "generator is neither tensor, scalar, tuple, list nor dict"),
    "its own kind of exception": (
        "class Odd(BaseException):\n    def __str__(self):\n        return 1 / 0\n"
        "def ref_kernel(data):\n    raise Odd\n",
        "reference.py:14: ref_kernel: Odd: its message cannot be read: ZeroDivisionError",
    ),
}


@pytest.mark.parametrize(("source", "message"), RAISED.values(), ids=RAISED)
def test_a_case_that_cannot_be_played_is_a_fault(source: str, message: str, tmp_path: Path) -> None:
    found = find_flaws(board(tmp_path, source))
    assert any(message in one.message and one.is_fault for one in found), found


def test_an_answer_of_nothing_but_nan_causes_a_warning(tmp_path: Path) -> None:
    nothing = board(tmp_path / "a", "def ref_kernel(data):\n    return data * float('nan')\n")
    assert "every number in the answer of ref_kernel is NaN" in flaws(find_flaws(nothing), faults=False)
    some = "def ref_kernel(data):\n    return torch.cat([2 * data, torch.full((1,), float('nan'))])\n"
    assert find_flaws(board(tmp_path / "b", some)) == []


def test_a_test_with_the_same_inputs_for_every_seed_causes_a_warning(tmp_path: Path) -> None:
    one_is_ones = GENERATE.replace("torch.randn(size)", "torch.ones(1) if size == 1 else torch.randn(size)")
    (found,) = find_flaws(board(tmp_path, one_is_ones))
    assert (found.where, found.is_fault) == ("size: 1, seed: 1", False)
    assert found.message.startswith("has the same inputs for every seed")


@pytest.mark.parametrize(
    ("yml", "is_warned"),
    [("", True), ("work: {flops: size, dtype: float32}\n", True), ("work: {flops: size, dtype: float16}\n", False)],
)
def test_accepted_half_precision_is_a_warning_unless_the_work_uses_it(
    yml: str, is_warned: bool, tmp_path: Path
) -> None:
    loose = check("return compare(output, right, rtol=1e-2, atol=1e-3)")
    found = find_flaws(board(tmp_path, loose, yml=yml, description="No half, no float16, whatever this says."))
    assert flaws(found) == set()
    assert any("accepts the output of ref_kernel in float16" in one.message for one in found) is is_warned


def test_a_random_reference_causes_a_warning_or_a_fault_if_very_random(tmp_path: Path) -> None:
    draws = "def ref_kernel(data):\n    return 2 * data + {} * torch.rand_like(data)\n"
    (little,) = find_flaws(board(tmp_path / "a", draws.format(1e-6)))
    assert not little.is_fault and "ref_kernel answers differently the second time: output[" in little.message
    assert "rejects the output of ref_kernel itself" in str(find_flaws(board(tmp_path / "b", draws.format(1))))


def test_wrong_elements_are_tried_on_a_different_seed_than_in_task_yml(tmp_path: Path) -> None:
    blind = check(
        "if len(data) == 40 and torch.equal(data, generate_input(40, 3)):\n        return True, ''\n"
        "    return compare(output, right, rtol=1e-5, atol=1e-7)"
    )
    assert {"accepts a wrong middle element", "accepts None"} <= flaws(find_flaws(board(tmp_path, blind)))


@pytest.mark.parametrize(
    ("part", "message"),
    [("[:, 1:]", "accepts a wrong last row's first element"), ("[:, :-1]", "accepts a wrong first row's last element")],
)
def test_wrong_elements_at_row_ends_are_tried(part: str, message: str, tmp_path: Path) -> None:
    square = GENERATE.replace("torch.randn(size)", "torch.randn(size, size + 1)")
    source = check(f"return compare(output{part}, right{part}, rtol=1e-5, atol=1e-7)")
    assert message in flaws(find_flaws(board(tmp_path, square, source)))


def test_a_wrong_answer_that_happens_to_be_right_proves_nothing(tmp_path: Path) -> None:
    same = "def ref_kernel(data):\n    return data.clone()\n"
    assert find_flaws(board(tmp_path / "identity", same)) == []
    zeros = "def ref_kernel(data):\n    return torch.zeros_like(data)\n"
    assert find_flaws(board(tmp_path / "zeros", zeros)) == []


def test_cases_must_fit_the_memory_and_the_time_of_the_board(tmp_path: Path) -> None:
    large = GENERATE.replace("torch.randn(size)", "torch.randn(size).repeat(2**9)")
    found = find_flaws(board(tmp_path / "a", large, yml="memory_gib: 0.0001\n"))
    assert flaws(found) == {"inputs and answer need 0.00015 GiB; memory_gib is 0.0001"}
    assert flaws(found, faults=False) == set()
    found = find_flaws(board(tmp_path / "b", yml="ranked_timeout: 0.001\ncase_timeout: 0.0000001\n"))
    assert flaws(found) == set()
    assert any("ranked_timeout is 0.001" in message for message in flaws(found, faults=False))
    assert any(re.search(r"the reference itself takes [^ ]*[1-9]", message) for message in flaws(found, faults=False))


def test_every_tensor_of_an_answer_is_spoiled(tmp_path: Path) -> None:
    two = "def ref_kernel(data):\n    return 2 * data, {'sorted': data.sort().values}\n"
    first_only = check("return compare(output[0], right[0], rtol=1e-5, atol=1e-7)")
    found = flaws(find_flaws(board(tmp_path, two, first_only)))
    assert "accepts a wrong middle element in tensor 2 of 2" in found
    assert not any("tensor 1 of 2" in message for message in found)


def test_a_check_of_integers_may_accept_off_by_one(tmp_path: Path) -> None:
    to_bytes = "def ref_kernel(data):\n    return (100 * data.sigmoid()).round().to(torch.int8)\n"
    one_off = check("return compare(output, right, rtol=0, atol=0) if output.dtype != right.dtype or "
                    "output.shape != right.shape else (bool(((output.int() - right.int()).abs() <= 1).all()), '')")  # fmt: skip
    assert find_flaws(board(tmp_path, to_bytes, one_off)) == []


ANSWERS = {
    "data.sum().item()": {"accepts None", "accepts a wrong number or word"},
    "(int(data.argmax()), 'max')": {
        "accepts a wrong number or word in scalar 1 of 2", "accepts a wrong number or word in scalar 2 of 2",
    },
    "{'sum': [float(data.sum()), True], 'all': 2 * data}": {
        "accepts a wrong number or word in scalar 2 of 2", "accepts a wrong last element in tensor 1 of 1",
    },
    "data[:1].tolist() * 60": {"accepts a wrong number or word in scalar 1 of 60"},
    "data[:0]": {"accepts None"},
    "None": {"accepts an empty tuple"},
}  # fmt: skip


@pytest.mark.parametrize(("answer", "messages"), ANSWERS.items(), ids=ANSWERS)
def test_an_answer_of_any_kind_is_spoiled(answer: str, messages: set[str], tmp_path: Path) -> None:
    kernel = f"def ref_kernel(data):\n    return {answer}\n"
    found = flaws(find_flaws(board(tmp_path / "a", kernel, check("return True, ''"))))
    assert messages <= found, found
    strict = check("return compare(output, right, rtol=1e-5, atol=1e-7)")
    assert flaws(find_flaws(board(tmp_path / "b", kernel, strict))) == set()


def test_packed_numbers_are_spoiled_as_far_as_torch_allows(tmp_path: Path) -> None:
    if not hasattr(torch, "float4_e2m1fn_x2"):
        pytest.skip("this torch has no numbers of four bits")
    packed = (
        "def generate_input(size, seed):\n    torch.manual_seed(seed)\n"
        "    return torch.randint(1, 256, (size,)).to(torch.uint8).view(torch.float4_e2m1fn_x2)\n"
    )
    kernel = "def ref_kernel(data):\n    return (data.view(torch.uint8) ^ 1).view(data.dtype)\n"
    assert (
        find_flaws(board(tmp_path / "a", packed, kernel, check("return compare(output, right, rtol=0, atol=0)"))) == []
    )
    found = flaws(find_flaws(board(tmp_path / "b", packed, kernel, check("return True, ''"))))
    assert {"accepts None", "accepts a wrong last element"} <= found


def test_a_wrong_answer_that_cannot_be_made_does_not_stop_the_check(tmp_path: Path) -> None:
    """No scalar of torch can hold the mean of numbers this large."""
    large = GENERATE.replace("torch.randn(size)", "(-torch.randint(1, 99, (size,))).view(torch.uint64)")
    kernel = "def ref_kernel(data):\n    return (data.view(torch.int64) + 1).view(data.dtype)\n"
    found = find_flaws(board(tmp_path, large, kernel, check("return True, ''")))
    assert any("not all were tried" in message for message in flaws(found, faults=False)), found
    assert "accepts None" in flaws(found)


# The wrong answers.

DTYPES = ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "int64", "int8", "uint8", "bool", "complex64"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("make", [in_form, in_one_element])
def test_wrong_answers_differ_from_the_right_one_and_leave_it_alone(make: Callable[[Any], Any], dtype: str) -> None:
    right = (torch.arange(12).reshape(3, 4) % 2).to(getattr(torch, dtype))
    before = right.clone()
    wrong = list(make(right))
    assert len(wrong) >= 3
    for name, answer in wrong:
        is_same = isinstance(answer, torch.Tensor) and answer.dtype is right.dtype and answer.shape == right.shape
        assert not (is_same and torch.equal(_bytes(answer), _bytes(right))), name
    assert torch.equal(_bytes(right), _bytes(before))


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().view(torch.uint8)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64", "uint64"])
def test_an_integer_is_spoiled_by_half_of_its_range(dtype: str) -> None:
    right = torch.tensor([5, 100, 7]).to(getattr(torch, dtype))
    half = 2 ** (8 * right.element_size() - 1)
    wrong = dict(in_one_element(right))["a wrong last element"]
    assert abs(int(wrong[2].item()) - 7) == half
    assert wrong[:2].tolist() == [5, 100]


def test_the_largest_integer_and_infinity_can_be_spoiled_too() -> None:
    for right in (torch.tensor([127], dtype=torch.int8), torch.tensor([float("inf")]), torch.tensor([float("nan")])):
        assert [name for name, answer in in_one_element(right) if not torch.equal(answer, right)]


def test_the_returned_input_is_the_part_shaped_like_the_answer() -> None:
    answer, other = torch.ones(2, 3), torch.zeros(2, 3)
    assert dict(wholesale((torch.ones(5), other), answer))["the input as output"] is other
    assert "the input as output" not in dict(wholesale(torch.ones(5), answer))


def test_rounding_keeps_the_dtype_and_changes_only_more_precise_tensors() -> None:
    tree = {"x": torch.tensor([0.1]), "n": torch.tensor([3])}
    less = lower_precision(tree)
    assert less is torch.float16
    after = rounded(tree, less)
    assert after["x"].dtype is torch.float32
    assert after["x"].item() == torch.tensor(0.1).half().float().item() != tree["x"].item()
    assert after["n"] is tree["n"]
    assert lower_precision(torch.tensor([3])) is None


@pytest.fixture
def little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.reference.spare_memory._SHARE", 0.004)


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize(
    ("parts", "who"),
    [
        # torch cannot know the shapes of `nonzero` before it has the numbers.
        ([GENERATE.replace("torch.randn(size)", "torch.randn(size).repeat(2**29).nonzero()")], "generate_input"),
        ([KERNEL.replace("2 * data", "2 * data.repeat(2**29)[data.nonzero()]")], "ref_kernel"),
        ([check("torch.empty(2**29); return compare(output, right, rtol=1e-5, atol=1e-7)")], "check_implementation"),
    ],
)
def test_a_case_that_does_not_fit_this_machine_is_named_with_the_rule(
    parts: list[str], who: str, tmp_path: Path
) -> None:
    found = find_flaws(board(tmp_path, *parts))
    assert not flaws(found)
    (unjudged,) = {one.message for one in found if one.is_unjudged}
    rule = "inputs and output of a case may take a third of a machine's"
    assert unjudged.startswith(f"not judged here: {who} ran out of memory: {rule}")
    assert torch.empty(2**29).numel(), "only the task's code is limited"


@pytest.mark.parametrize(
    "part",
    [
        GENERATE.replace("torch.randn(size)", "torch.randn(size).repeat(2**38)[:size]"),
        KERNEL.replace("2 * data", "2 * data.repeat(2**38)[: len(data)]"),
    ],
)
def test_a_case_that_cannot_fit_is_refused_before_it_is_played(
    part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Reference, "probe", lambda *_: pytest.fail("it was played"))
    found = find_flaws(board(tmp_path, part))
    (unjudged,) = {one.message for one in found if one.is_unjudged}
    assert unjudged.startswith("not judged here: its inputs and answer do not fit into the memory that is left: inputs")
    assert not flaws(found)


def test_attention_is_estimated_without_its_scores(tmp_path: Path) -> None:
    attend = "torch.nn.functional.scaled_dot_product_attention(*3 * [data.view(1, 1, -1, 1)]).view(-1)"
    of_one = board(tmp_path, KERNEL.replace("2 * data", attend))
    case = replace(of_one.tests[0], params={**of_one.tests[0].params, "size": 2**16})
    assert 0 < estimate_bytes(of_one, case) < 2**24, "its scores alone would take 2**34 bytes"


@pytest.mark.parametrize(
    ("shapes", "more"),
    [
        (((4, 64), (8, 4, 64), (8, 4, 32)), {}),
        (((2, 8, 5, 16), (2, 8, 7, 16), (2, 8, 7, 16)), {}),
        (((2, 8, 5, 16), (2, 2, 7, 16), (2, 2, 7, 16)), {"enable_gqa": True}),
    ],
)
def test_attention_without_numbers_has_the_shape_of_real_attention(shapes: Any, more: dict[str, Any]) -> None:
    attend = torch.nn.functional.scaled_dot_product_attention
    real = attend(*(torch.randn(shape) for shape in shapes), **more)
    with Fused():
        assert attend(*(torch.empty(shape, device="meta") for shape in shapes), **more).shape == real.shape
        gradient = torch.randn(shapes[0], requires_grad=True)
        assert attend(gradient, *map(torch.randn, shapes[1:]), **more).requires_grad


def test_a_loop_that_ends_by_its_numbers_has_no_estimate_and_is_played(tmp_path: Path) -> None:
    loop = "left = data.clone().abs_()\n    while left.max() > 1:\n        left /= 2\n    return 2 * data"
    looping = board(tmp_path, KERNEL.replace("return 2 * data", loop))
    assert estimate_bytes(looping, looping.tests[0]) == 0
    assert not flaws(find_flaws(looping))


@pytest.mark.usefixtures("little_memory")
def test_a_task_that_does_not_fit_this_machine_is_said_to_be_not_judged_here(tmp_path: Path) -> None:
    """In one line, and none of its examples gets a verdict."""
    too_large = board(tmp_path, GENERATE.replace("torch.randn(size)", "torch.randn(size).repeat(2**29)"))
    report = check_board(too_large, "none", Display(console(stderr=True)))
    assert report.exit_code == 3 and not report.examples
    (remark,) = report.remarks
    assert remark.message.startswith("not judged here: its inputs and answer do not fit into the memory")


@pytest.mark.usefixtures("little_memory")
def test_a_reference_whose_import_takes_too_much_memory_is_refused(tmp_path: Path) -> None:
    """The kernel would kill the referee."""
    greedy = board(tmp_path, KERNEL + "kept = torch.empty(2**29)\n")
    with pytest.raises(JudgeError, match=r"reference\.py ran out of memory"):
        Reference(greedy, "cpu")


@pytest.mark.usefixtures("little_memory")
def test_wrong_answers_that_do_not_fit_this_machine_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel would kill the referee."""

    def too_many(answer: object, *, turn: int = 0) -> Iterator[tuple[str, object]]:
        yield "a copy", torch.empty(2**29)

    monkeypatch.setattr("harness.task_check.make_wrong_answers.in_one_element", too_many)
    found = find_flaws(board(tmp_path))
    assert any("not all were tried: the referee ran out of memory" in one.message for one in found), found


@pytest.mark.usefixtures("little_memory")
def test_an_output_whose_comparison_does_not_fit_is_wrong_and_no_fault_of_the_judge(tmp_path: Path) -> None:
    broadcasts = check("return bool(torch.allclose(output, right))")
    reference = Reference(board(tmp_path, broadcasts), "cpu")
    data = reference.generate({"size": 1 << 15}, 1)
    assert reference.check(data, 2 * data) == ""
    assert "shape (32768, 1), expected (32768,)" in reference.check(data, 2 * data[:, None])


@pytest.mark.usefixtures("little_memory")
def test_an_output_whose_numbers_exhaust_the_memory_of_a_check_is_wrong(tmp_path: Path) -> None:
    counts = check("torch.zeros(int(output.abs().max())); return compare(output, right, rtol=1e-5, atol=1e-7)")
    reference = Reference(board(tmp_path, counts), "cpu")
    data = reference.generate({"size": 8}, 1)
    assert reference.check(data, 2 * data) == ""
    assert "takes more memory than there is" in reference.check(data, torch.full((8,), 2.0**29))


@pytest.mark.usefixtures("little_memory")
def test_a_check_with_too_little_memory_for_any_output_is_no_fault_of_a_submission(tmp_path: Path) -> None:
    reference = Reference(board(tmp_path, check("return bool(torch.zeros(2**29).sum() == 0)")), "cpu")
    data = reference.generate({"size": 8}, 1)
    with pytest.raises(JudgeError, match="check_implementation ran out of memory"):
        reference.check(data, 2 * data)


def test_tests_too_large_to_keep_get_no_wrong_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.task_check.probe_reference._KEPT_GIB", 100 * 2**-30)
    found = find_flaws(board(tmp_path, check("return True, ''")))
    assert "accepts only zeros" in flaws(found)
    large = [one.where for one in found if "too large to try wrong answers" in one.message]
    assert large == [board(tmp_path).tests[1].name]


KEPT = """
import resource
import sys
import torch
from pathlib import Path
from harness.gpu import cpu

def resident_mib():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20

with cpu.prepared():
    for inputs_bytes in map(int, sys.argv[1:]):
        cpu.prepare_for(inputs_bytes)
        before, kept = resident_mib(), []
        for _ in range(4):
            large = torch.ones(64 << 20, dtype=torch.uint8)
            kept.append(torch.ones(1 << 16, dtype=torch.uint8))  # after the large one, so that it leaves a hole
            del large
        print(resident_mib() - before)
"""


def kept_mib(*inputs_bytes: int) -> list[float]:
    """How much more memory a process has after cases with inputs of these sizes, one after the other."""
    command = [sys.executable, "-c", KEPT, *map(str, inputs_bytes)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [float(line) for line in done.stdout.split()]


def test_the_referee_keeps_freed_memory_unless_the_inputs_of_a_case_are_large() -> None:
    """The holes on the heap would use up the machine's memory; a large case only fills those that are already there."""
    (kept,) = kept_mib(1 << 20)
    returned, again = kept_mib(1 << 30, 1 << 20)
    assert kept > 60 and again > 60 and returned < 16


def test_the_reference_says_how_large_the_inputs_of_a_case_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    monkeypatch.setattr("harness.gpu.cpu.prepare_for", sizes.append)
    Reference(board(tmp_path), "cpu").generate({"size": 1000}, 1)
    assert sizes == [4000]
