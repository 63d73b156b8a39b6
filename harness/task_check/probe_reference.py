"""Probe a task's reference: can it generate, compute and check reliably?  Runs no submission.

    every case      inputs can be generated and checked; equal seeds give equal inputs; they fit the board's limits
    all tests       equal inputs give equal answers; trivial answers are rejected by at least one test, and so are
                    the reference's own answers in a lower precision than `work.dtype`
    two tests       the smallest and the largest, on two seeds each: every answer of a wrong form, or with one wrong
                    element, is rejected

Everything runs in this process, as in the referee; each probe costs one call of `check_implementation`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from harness.processes.watched_memory import USABLE_BYTES
from harness.records.errors import JudgeError, TaskError
from harness.records.stats import MIN_PAIRS
from harness.referee.sampling import CALIBRATIONS, SAMPLES, WARMUPS
from harness.reference.checker import compare, is_same, mismatch
from harness.reference.reference import Reference, first_seed
from harness.reference.spare_memory import find_shortage
from harness.reference.values import flatten
from harness.task.task import Board, Case
from harness.task_check import make_wrong_answers
from harness.task_check.estimate_memory import estimate_bytes

CALLS = 2 * MIN_PAIRS * (WARMUPS + SAMPLES) + CALIBRATIONS * (WARMUPS + SAMPLES)
"""Minimum number of inputs that a ranked benchmark generates and checks."""

_GIB = 2**30
_KEPT_GIB = USABLE_BYTES / _GIB / 12
"""Total size of the tests' inputs and answers that are kept to make wrong answers from."""
_AS_COARSE = {
    torch.float16: ("tf32", "float16", "bfloat16", "float8", "float4"),
    torch.bfloat16: ("bfloat16", "float8", "float4"),
}
"""Number formats with no more digits than the key: a task with one of them as `work.dtype` allows this precision."""
_COMPUTED = (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128)
"""Number formats that torch can compare with NaN on every device."""
_ALL_NAN = "every number in the answer of ref_kernel is NaN"
_SEEDS = (0, 1)
"""Offsets added to a case's seed, so that elements at other places are tried, too."""


@dataclass(frozen=True, kw_only=True)
class ProbeFinding:
    """A certain (`is_fault`) or possible problem of a task."""

    where: str
    message: str
    is_fault: bool = True
    is_fatal: bool = False
    """Whether no submission can be judged, because each judging would fail with the same error."""
    accepts_wrong_form: bool = False
    """Whether the check accepts an answer of another structure, shape or dtype."""
    is_unjudged: bool = False
    """Whether it says that a case does not fit this machine, which therefore cannot judge the board."""


@dataclass(frozen=True, kw_only=True)
class _PlayedCase:
    """A case as the referee plays it: inputs, right answer, and the seconds that each step took."""

    case: Case
    data: Any
    answer: Any
    make_s: float
    answer_s: float
    check_s: float
    varies: bool = True
    """Whether other seeds give other inputs."""

    @property
    def elements(self) -> int:
        """Number of elements in its answer; a scalar counts as one."""
        leaves = make_wrong_answers.leaves_of(self.answer)
        return sum(leaf.numel() if isinstance(leaf, torch.Tensor) else 1 for leaf in leaves)

    @property
    def is_nan(self) -> bool:
        """Whether its answer has floating-point numbers, of which all are NaN."""
        leaves = make_wrong_answers.leaves_of(self.answer)
        tensors = [torch.as_tensor(leaf) for leaf in leaves if isinstance(leaf, torch.Tensor | float)]
        numbers = [tensor for tensor in tensors if tensor.dtype in _COMPUTED and tensor.numel()]
        return bool(numbers) and all(bool(leaf.isnan().all()) for leaf in numbers)

    @property
    def gib(self) -> float:
        return (flatten(self.data).span_bytes + flatten(self.answer).span_bytes) / _GIB


def find_flaws(
    board: Board, on_step: Callable[[str], None] = lambda _: None, *, device: str = "cpu"
) -> list[ProbeFinding]:
    """Find the problems of a board's reference and cases that show without a submission.

    Returns none for tasks with their own program; only their examples can test that.

    Args:
        device: torch's name of the board's device, which must be available.
    """
    if not board.task.is_refereed:
        return []
    try:
        reference = Reference(board, device)
    except TaskError as error:
        return [ProbeFinding(where="reference.py", message=str(error), is_fatal=True)]
    found: list[ProbeFinding] = []
    tests = _play_all(reference, board, board.tests, on_step, found, _KEPT_GIB)
    is_complete = len(tests) == len(board.tests)
    tests = list(_kept(tests, found))
    if is_complete and tests:
        on_step("wrong answers")
        found += _as_far_as_it_goes(reference, _accepted_wholesale(reference, board, tests))
        found += _as_far_as_it_goes(reference, _accepted_somewhere(reference, tests))
        found += _as_far_as_it_goes(reference, _failing(reference, tests))
        found += _as_far_as_it_goes(reference, _unsteady(reference, tests))
    del tests
    found += _too_slow(board, _play_all(reference, board, board.benchmarks, on_step, found))
    return found


# Every case.


def _play_all(
    reference: Reference,
    board: Board,
    cases: Sequence[Case],
    on_step: Callable[[str], None],
    found: list[ProbeFinding],
    kept_gib: float = 0.0,
) -> list[_PlayedCase]:
    """Play all cases; return those that can be played, and add a finding for each distinct failure.

    Args:
        kept_gib: the total size of the tensors to keep; the others are dropped at once.
    """
    played = []
    for number, case in enumerate(cases, 1):
        on_step(f"{case.kind} {number} of {len(cases)}")
        try:
            if reference.device.type == "cpu" and (shortage := find_shortage(estimate_bytes(board, case))):
                raise shortage
            varies = reference.probe(case.params)
            one = replace(_play(reference, case), varies=varies)
        except (TaskError, JudgeError) as error:
            too_large = isinstance(error, JudgeError)
            message = f"not judged here: {error}" if too_large else str(error)
            if all(one.message != message for one in found):
                found.append(
                    ProbeFinding(where=case.name, message=message, is_fault=not too_large, is_unjudged=too_large)
                )
            continue
        found += _too_large(board, one)
        if one.is_nan and all(one.message != _ALL_NAN for one in found):
            found.append(ProbeFinding(where=case.name, message=_ALL_NAN, is_fault=False))
        kept_gib -= one.gib
        played.append(one if kept_gib >= 0 else replace(one, data=None, answer=None))
    found += _constant(reference, played, found)
    return played


def _kept(tests: Sequence[_PlayedCase], found: list[ProbeFinding]) -> Iterator[_PlayedCase]:
    """The tests to make wrong answers from; adds a finding for those that are too large for this machine."""
    for one in tests:
        if one.data is not None:
            yield one
        else:
            message = "is too large to try wrong answers on it on this machine"
            found.append(ProbeFinding(where=one.case.name, message=message, is_fault=False))


def _constant(
    reference: Reference, played: Sequence[_PlayedCase], found: Sequence[ProbeFinding]
) -> Iterator[ProbeFinding]:
    """Cases whose inputs ignore the seed: a few are warnings, too many are a fault."""
    still = [one.case.name for one in played if not one.varies]
    try:
        reference.require_variety((one.case, one.varies) for one in played)
    except TaskError as error:
        if all(one.message != str(error) for one in found):
            yield ProbeFinding(where=still[0], message=str(error))
        return
    for name in still:
        message = "has the same inputs for every seed, so its answer can be known in advance"
        yield ProbeFinding(where=name, message=message, is_fault=False)


def _play(reference: Reference, case: Case, turn: int = 0) -> _PlayedCase:
    """Play a case on its own seed plus `turn`.

    Raises:
        TaskError: the same seed gives different inputs the second time.
    """
    seed = first_seed(case.params) + turn
    began = reference.settled_at()
    data = reference.generate(case.params, seed)
    made = reference.settled_at()
    answer = reference.compute(data)
    answered = reference.settled_at()
    reference.objection(data, answer)
    checked = reference.settled_at()
    with reference.memory:
        is_unchanged = is_same(reference.generate(case.params, seed), data)
    if not is_unchanged:
        raise TaskError(
            "generate_input returns different inputs for the same seed, so judgements cannot be replayed; "
            "draw all values from the global generators of torch, numpy or random, or from one seeded with `seed`"
        )
    return _PlayedCase(
        case=case, data=data, answer=answer,
        make_s=made - began, answer_s=answered - made, check_s=checked - answered,
    )  # fmt: skip


def _too_large(board: Board, one: _PlayedCase) -> Iterator[ProbeFinding]:
    limit = board.limits.memory_gib
    if one.gib > limit / 2:
        message = f"inputs and answer need {one.gib:.2g} GiB; memory_gib is {limit:g}"
        yield ProbeFinding(where=one.case.name, message=message, is_fault=one.gib > limit)


def _too_slow(board: Board, benchmarks: Sequence[_PlayedCase]) -> Iterator[ProbeFinding]:
    """Timeouts are only warnings, because times depend on this machine and its load."""
    limits = board.limits
    for one in benchmarks:
        if one.answer_s > limits.case_timeout_s:
            message = f"the reference itself takes {one.answer_s:.3g} s; case_timeout is {limits.case_timeout_s:g}"
            yield ProbeFinding(where=one.case.name, message=message, is_fault=False)
    needed_s = CALLS * sum(one.make_s + one.check_s for one in benchmarks)
    if needed_s > limits.ranked_timeout_s / 2:
        message = (
            f"generating and checking {CALLS} inputs of each takes {needed_s:.0f} s; "
            f"ranked_timeout is {limits.ranked_timeout_s:g}"
        )
        yield ProbeFinding(where="benchmarks", message=message, is_fault=False)


# Wrong answers.


def _as_far_as_it_goes(reference: Reference, flaws: Iterator[ProbeFinding]) -> Iterator[ProbeFinding]:
    """Yield findings until an error, and turn the error into a finding, so that the other probes still run."""
    try:
        with reference.memory:
            yield from flaws
    except TaskError as error:  # the check returns neither right nor wrong
        yield ProbeFinding(where="wrong answers", message=str(error))
    except JudgeError as error:  # they do not fit this machine
        yield ProbeFinding(where="wrong answers", message=f"not all were tried: {error}", is_fault=False)
    except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
        # Torch does not support every operation for every dtype.
        message = f"not all were tried: making them from this answer failed ({type(error).__name__}: {error})"
        yield ProbeFinding(where="wrong answers", message=message, is_fault=False)


def _accepted_wholesale(reference: Reference, board: Board, tests: Sequence[_PlayedCase]) -> Iterator[ProbeFinding]:
    """Trivial answers that every test accepts; answers that happen to be right are skipped."""
    for name in dict.fromkeys(name for one in tests for name in _wholesale(one)):
        if _all_accepted(reference, tests, partial(_answer_of, name)):
            yield ProbeFinding(where="all tests", message=f"accepts {name}")
    less = make_wrong_answers.lower_precision(tests[0].data, tests[0].answer)
    work = board.task.work
    if less is None or (work and work.dtype in _AS_COARSE[less]):
        return
    if _all_accepted(reference, tests, lambda one: _in_lower_precision(reference, one, less)):
        dtype = str(less).removeprefix("torch.")
        message = (
            f"accepts the output of ref_kernel in {dtype}; tighten the tolerance, or set `work: {{dtype: {dtype}}}`, "
            "whose peak the hardware's limit then uses"
        )
        yield ProbeFinding(where="all tests", message=message, is_fault=False)


def _wholesale(one: _PlayedCase) -> dict[str, Any]:
    return dict(make_wrong_answers.wholesale(one.data, one.answer))


def _answer_of(name: str, one: _PlayedCase) -> Any:
    return _wholesale(one).get(name)


def _in_lower_precision(reference: Reference, one: _PlayedCase, less: torch.dtype) -> Any:
    try:
        return make_wrong_answers.rounded(reference.compute(make_wrong_answers.rounded(one.data, less)), less)
    except TaskError:
        return None  # the reference does not support such inputs, so neither can a submission


def _all_accepted(reference: Reference, tests: Sequence[_PlayedCase], make: Callable[[_PlayedCase], Any]) -> bool:
    tried = 0
    for one in tests:
        answer = make(one)
        if answer is None or is_same(answer, one.answer):
            continue
        tried += 1
        if reference.objection(one.data, answer):
            return False
    return tried > 0


def _accepted_somewhere(reference: Reference, tests: Sequence[_PlayedCase]) -> Iterator[ProbeFinding]:
    """Answers that every test must reject, tried on the smallest and the largest test."""
    # An empty answer can only be wrong in its form, so empty ones are used only if there are no others.
    by_size = sorted([one for one in tests if one.elements] or tests, key=lambda one: one.elements)
    for one in by_size[:1] + by_size[1:][-1:]:
        wrong = dict(found for turn in _SEEDS for found in _accepted_in(reference, one, turn))
        for name, accepts_wrong_form in wrong.items():
            yield ProbeFinding(where=one.case.name, message=f"accepts {name}", accepts_wrong_form=accepts_wrong_form)


def _accepted_in(reference: Reference, one: _PlayedCase, turn: int) -> Iterator[tuple[str, bool]]:
    """The wrong answers that a test accepts, with `turn` added to its seed, and whether their form is wrong."""
    again = _play(reference, one.case, turn) if turn else one
    for make in (make_wrong_answers.in_form, partial(make_wrong_answers.in_one_element, turn=turn)):
        for name, answer in make(again.answer):
            if not is_same(answer, again.answer) and not reference.objection(again.data, answer):
                yield name, bool(mismatch(answer, again.answer))


def _failing(reference: Reference, tests: Sequence[_PlayedCase]) -> Iterator[ProbeFinding]:
    """Checks that crash on wrong numbers: this counts as a rejection, but they may crash on right ones, too.

    Only a warning: a check that indexes by the output, as for a sort, legitimately fails on an invalid index.
    """
    for one in tests:
        for name, answer in make_wrong_answers.in_one_element(one.answer):
            if error := reference.failure(one.data, answer):
                message = f"check_implementation itself fails on {name}: {error}; return (False, why) instead"
                yield ProbeFinding(where=one.case.name, message=message, is_fault=False)
                return


def _unsteady(reference: Reference, tests: Sequence[_PlayedCase]) -> Iterator[ProbeFinding]:
    """Warn if equal inputs give a different answer the second time; one that the check rejects is already a fault."""
    for one in tests:
        right, difference = compare(reference.compute(one.data), one.answer, rtol=0, atol=0)
        if not right:
            message = f"ref_kernel answers differently the second time: {difference}; it must be deterministic"
            yield ProbeFinding(where=one.case.name, message=message, is_fault=False)
            return
