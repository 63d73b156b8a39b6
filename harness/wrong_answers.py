"""Answers that are wrong in a known way, made from right ones: what a task's check has to refuse.

    wholesale   zeros, the mean everywhere, the input given back        what somebody submits who has computed nothing
    in form     None, another shape, another dtype, NaN everywhere      what a check that only subtracts lets through
    in one      one element wrong, or NaN, in every tensor of it        what a check that only averages lets through
    less        the inputs and the answer rounded to fewer bits         what is faster than what was asked for

Pure; the answers given are never changed.  What cannot be made of an answer is left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch

Wrong = tuple[str, Any]
"""What is wrong with an answer, in words, and the answer."""

LESS_PRECISE = {torch.float64: torch.float16, torch.float32: torch.float16, torch.float16: torch.bfloat16}
"""What somebody in a hurry computes in."""


def in_form(answer: Any) -> Iterator[Wrong]:
    """Of a wrong kind, whatever the numbers are."""
    yield "None", None
    for number, tensor in enumerate(tensors_of(answer)):
        at = _at(number, answer)
        yield f"one dimension too many{at}", _with(answer, number, tensor.unsqueeze(0))
        if tensor.dim() and tensor.shape[-1] > 1:
            yield f"a last column missing{at}", _with(answer, number, tensor[..., :-1])
        yield (
            f"the dtype {_name(_other_dtype(tensor.dtype))}{at}",
            _with(answer, number, tensor.to(_other_dtype(tensor.dtype))),
        )
        if tensor.is_floating_point() and tensor.numel() and tensor.element_size() > 1:
            yield f"nothing but NaN{at}", _with(answer, number, torch.full_like(tensor, math.nan))


def in_one_element(answer: Any) -> Iterator[Wrong]:
    """One element off by more than the whole range of the answer, or NaN: at the ends, in the middle, in between."""
    for number, tensor in enumerate(tensors_of(answer)):
        for place, index in _places(tensor.numel()).items():
            where = f"{place} element{_at(number, answer)}"
            if (changed := _spoiled(tensor, index)) is not None:
                yield f"a wrong {where}", _with(answer, number, changed)
            if tensor.is_floating_point() and tensor.element_size() > 1:
                yield f"NaN as the {where}", _with(answer, number, _put(tensor, index, math.nan))


def wholesale(data: Any, answer: Any) -> Iterator[Wrong]:
    """What takes no computing."""
    yield "nothing but zeros", map_tensors(answer, _zeros)
    yield "the mean everywhere", map_tensors(answer, _mean)
    if (given := _given_back(data, answer)) is not None:
        yield "the input, given back", given


def lower_precision(*trees: Any) -> torch.dtype | None:
    """Which precision is the next lower one of what is computed with; None where there is none."""
    dtypes = {tensor.dtype for tree in trees for tensor in tensors_of(tree)}
    return next((less for dtype, less in LESS_PRECISE.items() if dtype in dtypes), None)


def rounded(tree: Any, less: torch.dtype) -> Any:
    """The same numbers in the same dtypes, with no more digits than `less` has."""
    wider = {dtype for dtype, lower in LESS_PRECISE.items() if lower is less}
    return map_tensors(tree, lambda tensor: tensor.to(less).to(tensor.dtype) if tensor.dtype in wider else tensor)


# Trees of tensors.


def map_tensors(tree: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """The same nesting, with every tensor changed."""
    match tree:
        case torch.Tensor():
            return change(tree)
        case tuple():
            return tuple(map_tensors(item, change) for item in tree)
        case list():
            return [map_tensors(item, change) for item in tree]
        case dict():
            return {key: map_tensors(item, change) for key, item in tree.items()}
    return tree


def tensors_of(tree: Any) -> list[torch.Tensor]:
    """All tensors of a tree, in its order."""
    found: list[torch.Tensor] = []
    map_tensors(tree, lambda tensor: found.append(tensor) or tensor)  # type: ignore[func-returns-value]
    return found


def _with(tree: Any, number: int, tensor: torch.Tensor) -> Any:
    """The tree with another tensor in the place of one."""
    numbers = iter(range(len(tensors_of(tree))))
    return map_tensors(tree, lambda old: tensor if next(numbers) == number else old)


def _at(number: int, answer: Any) -> str:
    count = len(tensors_of(answer))
    return f" in tensor {number + 1} of {count}" if count > 1 else ""


# Single tensors.


def _places(numel: int) -> dict[str, int]:
    """Indices into a flat tensor, by name; the odd place lies at no border of rows or blocks."""
    found = {"first": 0, "last": numel - 1, "middle": numel // 2, "odd-placed": int(numel * 0.6180339) | 1}
    return {name: index for name, index in found.items() if 0 <= index < numel}


def _put(tensor: torch.Tensor, index: int, value: Any) -> torch.Tensor:
    changed = tensor.detach().clone(memory_format=torch.contiguous_format)
    changed.view(-1)[index] = value
    return changed


def _spoiled(tensor: torch.Tensor, index: int) -> torch.Tensor | None:
    if tensor.element_size() == 1 and tensor.is_floating_point():
        return _flipped(tensor, index)
    value = tensor.detach().reshape(-1)[index].item()
    if isinstance(value, bool):
        return _put(tensor, index, not value)
    if isinstance(value, int):
        return _put(tensor, index, value - 1 if value == torch.iinfo(tensor.dtype).max else value + 1)
    if not math.isfinite(abs(value)):
        return _put(tensor, index, 0)
    sizes = tensor.detach().abs().double()
    largest = sizes[sizes.isfinite()].max().item()
    wrong = value + 10 * (1 + largest)
    if abs(wrong) > torch.finfo(tensor.dtype).max:  # no room above: as large as they come, with the other sign
        wrong = -largest if value.real > 0 else largest
    return _put(tensor, index, wrong)


def _flipped(tensor: torch.Tensor, index: int) -> torch.Tensor:
    """Numbers of eight or four bits know no arithmetic: the highest bit of their exponent is turned round."""
    changed = tensor.detach().clone(memory_format=torch.contiguous_format)
    changed.view(torch.uint8).view(-1)[index] ^= 0x40
    return changed


def _zeros(tensor: torch.Tensor) -> torch.Tensor:
    # torch can do next to nothing with numbers of four bits; all bits 0 are a 0 in every format.
    if tensor.element_size() == 1 and tensor.is_floating_point():
        return torch.zeros_like(tensor.view(torch.uint8)).view(tensor.dtype)
    return torch.zeros_like(tensor)


def _mean(tensor: torch.Tensor) -> torch.Tensor:
    if not tensor.numel() or _is_packed(tensor):
        return tensor
    if tensor.is_complex():
        return torch.full_like(tensor, tensor.mean().item())
    mean = tensor.double().mean().item()
    if tensor.is_floating_point():
        return torch.empty_like(tensor, dtype=torch.float64).fill_(mean).to(tensor.dtype)
    return torch.full_like(tensor, round(mean))


def _other_dtype(dtype: torch.dtype) -> torch.dtype:
    """One that holds the same numbers: only a look at the dtype tells the two apart."""
    if dtype.is_complex:
        return torch.complex64 if dtype is torch.complex128 else torch.complex128
    if dtype.is_floating_point:
        return torch.float32 if dtype is torch.float64 else torch.float64
    return torch.int32 if dtype is torch.int64 else torch.int64


def _given_back(data: Any, answer: Any) -> Any:
    """The input, or the first part of it, that looks like the answer."""
    if _form(data) == _form(answer):
        return data
    if not isinstance(answer, torch.Tensor):
        return None
    return next((tensor for tensor in tensors_of(data) if _form(tensor) == _form(answer)), None)


def _form(tree: Any) -> Any:
    tensors = [(tensor.shape, tensor.dtype) for tensor in tensors_of(tree)]
    return isinstance(tree, torch.Tensor), tensors


def _is_packed(tensor: torch.Tensor) -> bool:
    """Two numbers of four bits share a byte: torch cannot convert them."""
    return _name(tensor.dtype).startswith("float4")


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
