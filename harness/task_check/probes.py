"""Is a task's reference fit to judge by?  Its own code is asked what only it can answer; no submission is run.

    every case      it can be made and checked; the same seed makes the same inputs; all of it fits the board
    all tests       the same inputs get the same answer twice; one that took no computing is refused in one of them at
                    least, and so is one of the reference's own in fewer bits than `work.dtype` speaks of
    two tests       the smallest and the largest, on two seeds each: every answer of a wrong form, or with one wrong
                    element, is refused

All of it happens in this process, as the referee does it: a probe costs one call of `check_implementation`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from harness.records.errors import TaskError
from harness.records.stats import MIN_PAIRS
from harness.referee.checker import compare
from harness.referee.reference import Reference
from harness.referee.sampling import CALIBRATIONS, SAMPLES, WARMUPS
from harness.referee.values import deal
from harness.task.task import Board, Case
from harness.task_check import wrong_answers

CALLS = 2 * MIN_PAIRS * (WARMUPS + SAMPLES) + CALIBRATIONS * (WARMUPS + SAMPLES)
"""So often a ranked benchmark is dealt and checked, at the least."""

_GIB = 2**30
_AS_COARSE = {
    torch.float16: ("tf32", "float16", "bfloat16", "float8", "float4"),
    torch.bfloat16: ("bfloat16", "float8", "float4"),
}
"""Formats with no more digits: a task that counts its work in one of them grants as many."""
_SEEDS = (0, 1)
"""Added to the seed of a case: one that draws its values from another seed has its wrong elements elsewhere, too."""


@dataclass(frozen=True, kw_only=True)
class ProbeFinding:
    """What is wrong with a task, or may be."""

    where: str
    message: str
    is_fault: bool = True
    is_fatal: bool = False
    """Whether nobody can be judged by it: whoever tries is told the same again."""


@dataclass(frozen=True, kw_only=True)
class _PlayedCase:
    """A case as the referee would play it: its inputs, the right answer, and the seconds that each step took."""

    case: Case
    data: Any
    answer: Any
    make_s: float
    answer_s: float
    check_s: float
    varies: bool = True
    """Whether another seed makes other inputs."""

    @property
    def elements(self) -> int:
        """Numbers in its answer, a scalar being one."""
        leaves = wrong_answers.leaves_of(self.answer)
        return sum(leaf.numel() if isinstance(leaf, torch.Tensor) else 1 for leaf in leaves)

    @property
    def gib(self) -> float:
        return (deal(self.data).span_bytes + deal(self.answer).span_bytes) / _GIB


def find_flaws(
    board: Board, on_step: Callable[[str], None] = lambda _: None, *, device: str = "cpu"
) -> list[ProbeFinding]:
    """All that is wrong with a board's reference and cases, as far as can be told without a submission.

    Of a task that brings its own program nothing is: what that makes of a wrong answer, its examples show.

    Args:
        device: torch's name of the board's, which is there.
    """
    if not board.task.is_refereed:
        return []
    try:
        reference = Reference(board, device)
    except TaskError as error:
        return [ProbeFinding(where="reference.py", message=str(error), is_fatal=True)]
    found: list[ProbeFinding] = []
    tests = _play_all(reference, board.tests, on_step, found)
    if len(tests) == len(board.tests):
        on_step("wrong answers")
        found += _as_far_as_it_goes(_accepted_wholesale(reference, board, tests))
        found += _as_far_as_it_goes(_accepted_somewhere(reference, tests))
        found += _as_far_as_it_goes(_failing(reference, tests))
        found += _as_far_as_it_goes(_unsteady(reference, tests))
    found += _too_large(board, tests)
    del tests
    found += _too_slow(board, _play_all(reference, board.benchmarks, on_step, found, board))
    return found


# Every case.


def _play_all(
    reference: Reference,
    cases: Sequence[Case],
    on_step: Callable[[str], None],
    found: list[ProbeFinding],
    board: Board | None = None,
) -> list[_PlayedCase]:
    """The cases that can be played; of the others it is said why not, of each cause once.

    Args:
        board: look at its memory at once, and keep no tensors: benchmarks may be large.
    """
    played = []
    for number, case in enumerate(cases, 1):
        on_step(f"{case.kind} {number} of {len(cases)}")
        try:
            varies = reference.probe(case.params)
            one = replace(_play(reference, case), varies=varies)
        except TaskError as error:
            if all(one.message != str(error) for one in found):
                found.append(ProbeFinding(where=case.name, message=str(error)))
            continue
        if board:
            found += _too_large(board, [one])
            one = replace(one, data=None, answer=None)
        played.append(one)
    found += _constant(reference, played, found)
    return played


def _constant(
    reference: Reference, played: Sequence[_PlayedCase], found: Sequence[ProbeFinding]
) -> Iterator[ProbeFinding]:
    """Cases whose inputs anybody can know: too many of them are a fault, a few are said."""
    still = [one.case.name for one in played if not one.varies]
    try:
        reference.require_variety((one.case, one.varies) for one in played)
    except TaskError as error:
        if all(one.message != str(error) for one in found):
            yield ProbeFinding(where=still[0], message=str(error))
        return
    for name in still:
        message = "has the same inputs for every seed, so that its answer can be known beforehand"
        yield ProbeFinding(where=name, message=message, is_fault=False)


def _play(reference: Reference, case: Case, turn: int = 0) -> _PlayedCase:
    """Play a case on its own seed, or on one that is further by `turn`.

    Raises:
        TaskError: the same seed makes other inputs the second time.
    """
    seed = (case.public_seed or 1) + turn
    began = reference.settled_at()
    data = reference.generate(case.params, seed)
    made = reference.settled_at()
    answer = reference.compute(data)
    answered = reference.settled_at()
    reference.objection(data, answer)
    checked = reference.settled_at()
    if not _same(reference.generate(case.params, seed), data):
        raise TaskError(
            "generate_input makes other inputs from the same seed, so that nobody can replay a judgement; "
            "draw all of them from torch's, numpy's or random's own generators"
        )
    return _PlayedCase(
        case=case, data=data, answer=answer,
        make_s=made - began, answer_s=answered - made, check_s=checked - answered,
    )  # fmt: skip


def _too_large(board: Board, played: Sequence[_PlayedCase]) -> Iterator[ProbeFinding]:
    limit = board.limits.memory_gib
    for one in played:
        if one.data is not None and one.gib > limit / 2:
            message = f"inputs and answer take {one.gib:.2g} GiB; memory_gib is {limit:g}"
            yield ProbeFinding(where=one.case.name, message=message, is_fault=one.gib > limit)


def _too_slow(board: Board, benchmarks: Sequence[_PlayedCase]) -> Iterator[ProbeFinding]:
    """Warnings: how long something takes is this machine's word, and today's."""
    limits = board.limits
    for one in benchmarks:
        if one.answer_s > limits.case_timeout_s:
            message = f"the reference itself takes {one.answer_s:.1f} s; case_timeout is {limits.case_timeout_s:g}"
            yield ProbeFinding(where=one.case.name, message=message, is_fault=False)
    needed_s = CALLS * sum(one.make_s + one.check_s for one in benchmarks)
    if needed_s > limits.ranked_timeout_s / 2:
        message = (
            f"to make and to check {CALLS} inputs of each takes {needed_s:.0f} s; "
            f"ranked_timeout is {limits.ranked_timeout_s:g}"
        )
        yield ProbeFinding(where="benchmarks", message=message, is_fault=False)


# Wrong answers.


def _as_far_as_it_goes(flaws: Iterator[ProbeFinding]) -> Iterator[ProbeFinding]:
    """What was found until an error: then it is said what was not tried, and the rest of the check goes on."""
    try:
        yield from flaws
    except TaskError as error:  # of what is neither right nor wrong to its check
        yield ProbeFinding(where="wrong answers", message=str(error))
    except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
        # Torch cannot do everything with numbers of every dtype.
        message = f"not all of them were tried: none could be made of such answers ({type(error).__name__}: {error})"
        yield ProbeFinding(where="wrong answers", message=message, is_fault=False)


def _accepted_wholesale(reference: Reference, board: Board, tests: Sequence[_PlayedCase]) -> Iterator[ProbeFinding]:
    """Answers that no test refuses; those that happen to be right prove nothing, and are passed over."""
    for name in dict.fromkeys(name for one in tests for name in _wholesale(one)):
        if _all_accepted(reference, tests, partial(_answer_of, name)):
            yield ProbeFinding(where="all tests", message=f"accepts {name}")
    less = wrong_answers.lower_precision(tests[0].data, tests[0].answer)
    work = board.task.work
    if less is None or (work and work.dtype in _AS_COARSE[less]):
        return
    if _all_accepted(reference, tests, lambda one: _in_lower_precision(reference, one, less)):
        dtype = str(less).removeprefix("torch.")
        message = (
            f"accepts what ref_kernel makes in {dtype}; sharpen the tolerance, or say `work: {{dtype: {dtype}}}`, "
            "against whose peak times are then held"
        )
        yield ProbeFinding(where="all tests", message=message, is_fault=False)


def _wholesale(one: _PlayedCase) -> dict[str, Any]:
    return dict(wrong_answers.wholesale(one.data, one.answer))


def _answer_of(name: str, one: _PlayedCase) -> Any:
    return _wholesale(one).get(name)


def _in_lower_precision(reference: Reference, one: _PlayedCase, less: torch.dtype) -> Any:
    try:
        return wrong_answers.rounded(reference.compute(wrong_answers.rounded(one.data, less)), less)
    except TaskError:
        return None  # the reference refuses such inputs: nobody can go that way


def _all_accepted(reference: Reference, tests: Sequence[_PlayedCase], make: Callable[[_PlayedCase], Any]) -> bool:
    tried = 0
    for one in tests:
        answer = make(one)
        if answer is None or _same(answer, one.answer):
            continue
        tried += 1
        if reference.objection(one.data, answer):
            return False
    return tried > 0


def _accepted_somewhere(reference: Reference, tests: Sequence[_PlayedCase]) -> Iterator[ProbeFinding]:
    """Answers that every test must refuse, tried in the smallest and in the largest."""
    # In an empty answer only its form can be wrong: it is tried where there is no other.
    by_size = sorted([one for one in tests if one.elements] or tests, key=lambda one: one.elements)
    for one in by_size[:1] + by_size[1:][-1:]:
        wrong = dict.fromkeys(name for turn in _SEEDS for name in _accepted_in(reference, one, turn))
        yield from (ProbeFinding(where=one.case.name, message=f"accepts {name}") for name in wrong)


def _accepted_in(reference: Reference, one: _PlayedCase, turn: int) -> Iterator[str]:
    """What a test lets through whose seed is further by `turn`."""
    again = _play(reference, one.case, turn) if turn else one
    for make in (wrong_answers.in_form, partial(wrong_answers.in_one_element, turn=turn)):
        for name, answer in make(again.answer):
            if not _same(answer, again.answer) and not reference.objection(again.data, answer):
                yield name


def _failing(reference: Reference, tests: Sequence[_PlayedCase]) -> Iterator[ProbeFinding]:
    """A check that fails itself on wrong numbers: it looks as if it refused them, and may refuse right ones, too.

    A warning: one that indexes by the output, as that of a sort does, rightly refuses an index that is none.
    """
    for one in tests:
        for name, answer in wrong_answers.in_one_element(one.answer):
            if error := reference.failure(one.data, answer):
                message = f"check_implementation itself fails on {name}: {error}; better return (False, why)"
                yield ProbeFinding(where=one.case.name, message=message, is_fault=False)
                return


def _unsteady(reference: Reference, tests: Sequence[_PlayedCase]) -> Iterator[ProbeFinding]:
    """Whether the same inputs get another answer the second time; one that its check refuses is a fault already."""
    for one in tests:
        right, difference = compare(reference.compute(one.data), one.answer, rtol=0, atol=0)
        if not right:
            message = f"ref_kernel answers otherwise the second time: {difference}; what is right must not be drawn"
            yield ProbeFinding(where=one.case.name, message=message, is_fault=False)
            return


def _same(a: Any, b: Any) -> bool:
    return compare(a, b, rtol=0, atol=0)[0]
