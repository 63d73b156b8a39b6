"""Make wrong answers from right ones, to test that a task's check rejects them.

    wholesale   zeros, the mean everywhere, the input returned          submissions that compute nothing
    in form     None, (), another shape or dtype, NaN everywhere        accepted by a check that only subtracts
    in one      one element wrong, or NaN, in every part of it          accepted by a check that only averages
    less        inputs and answer rounded to a lower precision          faster than what the task asks for

Pure: never changes the given answers.  Skips wrong answers that cannot be made from an answer.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch

from harness.reference.checker import is_packed, name_of, tensors
from harness.reference.trees import map_leaves, map_tensors

Wrong = tuple[str, Any]
"""Description of a wrong answer, and the answer."""

LESS_PRECISE = {torch.float64: torch.float16, torch.float32: torch.float16, torch.float16: torch.bfloat16}
"""The lower precision that a submission might use instead."""
_MANY = 16
"""Up to this many scalars, each one is tried; of more, only a few."""


def in_form(answer: Any) -> Iterator[Wrong]:
    """Answers of a wrong form, whatever their numbers are."""
    yield "None", None
    yield "an empty tuple", ()
    for number, tensor in _some_leaves(answer):
        at = _at(number, answer)
        if not isinstance(tensor, torch.Tensor):
            yield f"None{at}", _with(answer, number, None)
            continue
        yield f"an extra dimension{at}", _with(answer, number, tensor.unsqueeze(0))
        if tensor.dim() and tensor.shape[-1] > 1:
            yield f"a missing last column{at}", _with(answer, number, tensor[..., :-1])
        if not is_packed(tensor):
            other = _other_dtype(tensor.dtype)
            yield f"the dtype {name_of(other)}{at}", _with(answer, number, tensor.to(other))
        if tensor.is_floating_point() and tensor.numel() and tensor.element_size() > 1:
            yield f"only NaN{at}", _with(answer, number, torch.full_like(tensor, math.nan))


def in_one_element(answer: Any, turn: int = 0) -> Iterator[Wrong]:
    """Answers with one element far off, or NaN: at the ends, in the middle, and in between.

    Far means more than the whole range of the answer, or for integers half the range of their dtype, which no tolerance
    allows.  The ends are those of the tensor and of its rows; `turn` varies the element in between.
    """
    for number, tensor in _some_leaves(answer, turn):
        if not isinstance(tensor, torch.Tensor):
            if (wrong := _wrong_scalar(tensor)) is not None:
                yield f"a wrong number or word{_at(number, answer)}", _with(answer, number, wrong)
            continue
        for place, index in _places(tensor, turn).items():
            where = f"{place} element{_at(number, answer)}"
            if (changed := _spoiled(tensor, index)) is not None:
                yield f"a wrong {where}", _with(answer, number, changed)
            if tensor.is_floating_point() and tensor.element_size() > 1:
                yield f"NaN as the {where}", _with(answer, number, _put(tensor, index, math.nan))


def wholesale(data: Any, answer: Any) -> Iterator[Wrong]:
    """Answers that take no computing."""
    yield "only zeros", map_leaves(answer, _zeros)
    yield "the mean everywhere", map_tensors(answer, _mean)
    if (given := _given_back(data, answer)) is not None:
        yield "the input as output", given


def lower_precision(*trees: Any) -> torch.dtype | None:
    """The next lower precision than that of the tensors; None if there is none."""
    dtypes = {tensor.dtype for tree in trees for tensor in tensors(tree)}
    return next((less for dtype, less in LESS_PRECISE.items() if dtype in dtypes), None)


def rounded(tree: Any, less: torch.dtype) -> Any:
    """The same tree and dtypes, with numbers rounded to the precision of `less`."""
    wider = {dtype for dtype, lower in LESS_PRECISE.items() if lower is less}
    return map_tensors(tree, lambda tensor: tensor.to(less).to(tensor.dtype) if tensor.dtype in wider else tensor)


# Trees with tensors and scalars as leaves.


def leaves_of(tree: Any) -> list[Any]:
    """All leaves of a tree, in order."""
    found: list[Any] = []
    map_leaves(tree, found.append)
    return found


def _some_leaves(tree: Any, turn: int = 0) -> list[tuple[int, Any]]:
    """All tensors and, if there are many scalars, a few of them; each with its number among the leaves."""
    leaves = leaves_of(tree)
    scalars = [number for number, leaf in enumerate(leaves) if not isinstance(leaf, torch.Tensor)]
    few = scalars if len(scalars) <= _MANY else [scalars[index] for index in _spread(len(scalars), turn).values()]
    chosen = {*few} | ({*range(len(leaves))} - {*scalars})
    return [(number, leaves[number]) for number in sorted(chosen)]


def _with(tree: Any, number: int, leaf: Any) -> Any:
    """The tree with leaf `number` replaced."""
    numbers = iter(range(len(leaves_of(tree))))
    return map_leaves(tree, lambda old: leaf if next(numbers) == number else old)


def _at(number: int, answer: Any) -> str:
    """` in tensor 2 of 2` or ` in scalar 1 of 3`, counted among its kind; "" for a single leaf."""
    are_tensors = [isinstance(leaf, torch.Tensor) for leaf in leaves_of(answer)]
    kind = are_tensors[number]
    alone = len(are_tensors) == 1
    place = f"{are_tensors[: number + 1].count(kind)} of {are_tensors.count(kind)}"
    return "" if alone else f" in {'tensor' if kind else 'scalar'} {place}"


# Scalars.


def _wrong_scalar(value: Any) -> Any:
    """A value far from the right one; None if there is none."""
    match value:
        case bool():
            return not value
        case int():
            return value + 10 * (1 + abs(value))
        case float():
            return value + 10 * (1 + abs(value)) if math.isfinite(value) else 0.0
        case str():
            return f"{value}?"
    return None


# Single tensors.


def _places(tensor: torch.Tensor, turn: int) -> dict[str, int]:
    """Indices into a flat tensor, by name; the odd one is not at a border of rows or blocks."""
    numel = tensor.numel()
    found = _spread(numel, turn)
    if tensor.dim() > 1:
        row = tensor.shape[-1]
        found |= {"first row's last": row - 1, "last row's first": numel - row}
    return {name: index for name, index in found.items() if 0 <= index < numel}


def _spread(count: int, turn: int) -> dict[str, int]:
    """A few indices below `count`, by name."""
    return {
        "first": 0,
        "last": count - 1,
        "middle": count // 2,
        "odd-placed": int(count * (0.6180339 * (turn + 1) % 1)) | 1,
    }


def _put(tensor: torch.Tensor, index: int, value: Any) -> torch.Tensor:
    changed = tensor.detach().clone(memory_format=torch.contiguous_format)
    changed.view(-1)[index] = value
    return changed


def _spoiled(tensor: torch.Tensor, index: int) -> torch.Tensor | None:
    if tensor.element_size() == 1 and tensor.is_floating_point():
        return _flipped(tensor, index, 0x40)
    value = tensor.detach().reshape(-1)[index].item()
    if isinstance(value, bool):
        return _put(tensor, index, not value)
    if isinstance(value, int):
        return _flipped(tensor, index, 0x80)
    if not math.isfinite(abs(value)):
        return _put(tensor, index, 0)
    sizes = tensor.detach().abs().double()
    largest = sizes[sizes.isfinite()].max().item()
    wrong = value + 10 * (1 + largest)
    if abs(wrong) > torch.finfo(tensor.dtype).max:  # overflow: use the largest one, with the other sign
        wrong = -largest if value.real > 0 else largest
    return _put(tensor, index, wrong)


def _flipped(tensor: torch.Tensor, index: int, bit: int) -> torch.Tensor:
    """Flip one bit of an element's highest byte.

    8-bit and 4-bit floats have no arithmetic in torch; flipping the highest exponent bit changes them a lot.  Flipping
    the highest bit of an integer changes it by half of its dtype's range.
    """
    changed = tensor.detach().clone(memory_format=torch.contiguous_format)
    size = changed.element_size()
    changed.view(-1).view(torch.uint8)[index * size + size - 1] ^= bit  # the highest byte comes last
    return changed


def _zeros(tensor: Any) -> Any:
    if not isinstance(tensor, torch.Tensor):
        return tensor if tensor is None else type(tensor)()
    # torch supports hardly any operation on 4-bit numbers; all bits 0 are a zero in every format.
    if tensor.element_size() == 1 and tensor.is_floating_point():
        return torch.zeros_like(tensor.view(torch.uint8)).view(tensor.dtype)
    return torch.zeros_like(tensor)


def _mean(tensor: torch.Tensor) -> torch.Tensor:
    if not tensor.numel() or is_packed(tensor):
        return tensor
    if tensor.is_complex():
        return torch.full_like(tensor, tensor.mean().item())
    mean = tensor.double().mean().item()
    if tensor.is_floating_point():
        return torch.empty_like(tensor, dtype=torch.float64).fill_(mean).to(tensor.dtype)
    return torch.full_like(tensor, round(mean))


def _other_dtype(dtype: torch.dtype) -> torch.dtype:
    """Another dtype that can hold the same numbers, so that only a check of the dtype notices."""
    if dtype.is_complex:
        return torch.complex64 if dtype is torch.complex128 else torch.complex128
    if dtype.is_floating_point:
        return torch.float32 if dtype is torch.float64 else torch.float64
    return torch.int32 if dtype is torch.int64 else torch.int64


def _given_back(data: Any, answer: Any) -> Any:
    """The input, or the first tensor in it, that has the form of the answer."""
    if _form(data) == _form(answer):
        return data
    if not isinstance(answer, torch.Tensor):
        return None
    return next((tensor for tensor in tensors(data) if _form(tensor) == _form(answer)), None)


def _form(tree: Any) -> Any:
    forms = [(leaf.shape, leaf.dtype) if isinstance(leaf, torch.Tensor) else type(leaf) for leaf in leaves_of(tree)]
    return isinstance(tree, torch.Tensor), forms
