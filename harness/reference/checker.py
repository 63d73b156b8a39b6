"""Compare outputs with expected values.  Tasks use this to check; tensors are compared nowhere else."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch

_WORD = 8
"""The size of an int64, in bytes."""


def compare(output: Any, expected: Any, *, rtol: float, atol: float) -> tuple[bool, str]:
    """Whether every number of `output` is within `atol + rtol * |expected|`; if not, which is the first to differ.

    Takes any nesting of tuples, lists, dicts, tensors and scalars.  Dtypes, shapes, integers and bools must be equal.
    NaN is right only where NaN is expected, and an infinity only where the same infinity is.  Differences are
    computed in float64, in chunks.

    >>> compare(torch.tensor([1.0, 2.5]), torch.tensor([1.0, 2.0]), rtol=0.01, atol=0)
    (False, 'output[1] is 2.5000, expected 2.0000 (allowed 0.02); 1 of 2 differ')
    """
    for name, tolerance in (("rtol", rtol), ("atol", atol)):
        if not isinstance(tolerance, int | float):
            raise TypeError(f"compare takes one number as {name}, not {describe(tolerance)}")
    if message := mismatch(output, expected):
        return False, message
    for where, mine, right in pairs(output, expected, "output"):
        if message := _difference(mine, right, where, rtol, atol):
            return False, message
    return True, ""


def mismatch(output: Any, expected: Any, where: str = "output") -> str:
    """How an output's form (kinds, keys, lengths, shapes, dtypes) differs from the expected one; "" if it doesn't."""
    subject = "custom_kernel returned" if where == "output" else f"{where} is"
    if not _is_same_kind(output, expected):
        return f"{subject} {describe(output)}; the task expects {describe(expected)}"
    if isinstance(expected, torch.Tensor):
        return _tensor_mismatch(output, expected, where)
    if isinstance(expected, dict) and output.keys() != expected.keys():
        return f"{where} has the keys {', '.join(map(repr, output))}; the task expects {', '.join(map(repr, expected))}"
    if isinstance(expected, tuple | list) and len(output) != len(expected):
        return f"{where} has length {len(output)}; the task expects {len(expected)}"
    children = ((output[key], item, f"{where}[{key!r}]") for key, item in _children(expected))
    return next(filter(None, (mismatch(*child) for child in children)), "")


def _is_same_kind(output: Any, expected: Any) -> bool:
    for kind in (torch.Tensor, dict, (tuple, list)):
        if isinstance(expected, kind):
            return isinstance(output, kind)
    # `type is`, not isinstance: True is an int to Python.
    return type(output) is type(expected)


def _tensor_mismatch(output: torch.Tensor, expected: torch.Tensor, where: str) -> str:
    if output.layout is not expected.layout:
        return f"{where} has layout {output.layout}; the task expects {expected.layout}"
    differences = []
    if output.shape != expected.shape:
        differences.append(f"shape {tuple(output.shape)}, expected {tuple(expected.shape)}")
    if output.dtype is not expected.dtype:
        differences.append(f"dtype {name_of(output.dtype)}, expected {name_of(expected.dtype)}")
    return f"{where} has {' and '.join(differences)}" if differences else ""


def _difference(output: Any, expected: Any, where: str, rtol: float, atol: float) -> str:
    if isinstance(expected, float | complex):
        wide = torch.complex128 if isinstance(expected, complex) else torch.float64
        output, expected = torch.tensor(output, dtype=wide), torch.tensor(expected, dtype=wide)
    if isinstance(expected, torch.Tensor):
        return _tensor_difference(output.detach(), expected.detach(), where, rtol, atol)
    return "" if output == expected else f"{where} is {output!r}, expected {expected!r}"


def _tensor_difference(output: torch.Tensor, expected: torch.Tensor, where: str, rtol: float, atol: float) -> str:
    mine, right = _flat(output), _flat(expected)
    if _are_same_bits(mine, right):
        return ""
    # Small enough for a CPU's cache; on a GPU, large enough to hide launch overhead.
    chunk = 1 << 16 if right.device.type == "cpu" else 1 << 24
    first, wrong = -1, 0
    for start in range(0, right.numel(), chunk):
        part, my_part = right[start : start + chunk], mine[start : start + chunk].to(right.device)
        if _are_all_close(my_part, part, rtol, atol):
            continue
        is_close = _is_close(my_part, part, rtol, atol)
        if not is_close.all():
            first = first if wrong else start + int(is_close.logical_not().nonzero()[0])
            wrong += int(is_close.logical_not().count_nonzero())
    if not wrong:
        return ""
    values = _say(mine[first].item(), right[first].item(), rtol, atol)
    count = f"; {wrong} of {right.numel()} differ" if right.numel() > 1 else ""
    return f"{where}{_index(first, expected.shape)} is {values}{count}"


def _are_same_bits(output: torch.Tensor, expected: torch.Tensor) -> bool:
    # As large integers, because torch compares numbers one by one.  Different bits may still be equal numbers: 0.0 and
    # -0.0.
    mine, right = map(_as_bytes, (output.to(expected.device), expected))
    whole = right.numel() // _WORD * _WORD
    is_same_end = torch.equal(mine[whole:], right[whole:])
    return is_same_end and torch.equal(_words(mine[:whole]), _words(right[:whole]))


def _as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The bytes of a tensor of one dimension."""
    dense = tensor.resolve_conj().resolve_neg().contiguous()
    # With less than two elements, any stride counts as contiguous, but not to `view`.
    return dense.as_strided(dense.shape, (1,)).view(torch.uint8)


def _words(data: torch.Tensor) -> torch.Tensor:
    """These bytes as integers of `_WORD` bytes."""
    return (data.clone() if data.storage_offset() % _WORD else data).view(torch.int64)


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    return (tensor.view(torch.uint8) if is_packed(tensor) else tensor).reshape(-1)


def is_packed(tensor: torch.Tensor) -> bool:
    """Whether two 4-bit numbers share a byte; torch has no operations on them, and cannot convert them."""
    return name_of(tensor.dtype).startswith("float4")


def _are_all_close(output: torch.Tensor, expected: torch.Tensor, rtol: float, atol: float) -> bool:
    """Whether `_is_close` holds for all of these real, finite numbers; False for others.  Takes half of its time."""
    if not expected.is_floating_point():
        return False
    expected = expected.to(torch.float64)
    excess = (output.to(torch.float64) - expected).abs_().sub_(expected.abs().mul_(rtol).add_(atol))
    least, most = excess.aminmax()
    return most.item() <= 0 and least.item() > -math.inf  # NaN, which is in both if it is anywhere, fails


def _is_close(output: torch.Tensor, expected: torch.Tensor, rtol: float, atol: float) -> torch.Tensor:
    if not (expected.is_floating_point() or expected.is_complex()):
        return output == expected
    wide = torch.complex128 if expected.is_complex() else torch.float64
    output, expected = output.to(wide), expected.to(wide)
    allowed = expected.abs().mul_(rtol).add_(atol)
    # `<=`, so that NaN fails: every comparison with NaN is False.  Where infinity is expected, `allowed` is
    # infinite as well and would accept everything; there, and for NaN, only the same value is right.
    is_close = ((output - expected).abs() <= allowed) & (allowed < math.inf)
    if not is_close.all():
        is_close |= (output == expected) | _are_same_nan(output, expected, rtol, atol)
    return is_close


def _are_same_nan(output: torch.Tensor, expected: torch.Tensor, rtol: float, atol: float) -> torch.Tensor:
    """Where both are NaN; of complex numbers, where NaN is expected and each part is close or NaN in both."""
    if not expected.is_complex():
        return output.isnan() & expected.isnan()
    mine, right = (torch.view_as_real(one.resolve_conj()) for one in (output, expected))
    is_close = ((mine - right).abs() <= right.abs() * rtol + atol) & right.isfinite()
    is_same = is_close | (mine == right) | (mine.isnan() & right.isnan())
    return expected.isnan() & is_same.all(dim=-1)


def _say(output: Any, expected: Any, rtol: float, atol: float) -> str:
    """`1.0312, expected 1.0000 (allowed 0.0011)`, with enough digits to tell the two apart."""
    if not isinstance(expected, float | complex):
        return f"{output}, expected {expected}"
    texts = [(f"{output:#.{digits}g}".rstrip("."), f"{expected:#.{digits}g}".rstrip(".")) for digits in (5, 9, 17)]
    mine, right = next((pair for pair in texts if pair[0] != pair[1]), texts[-1])
    allowed = atol + rtol * abs(expected)
    return f"{mine}, expected {right}" + (f" (allowed {allowed:.2g})" if math.isfinite(allowed) else "")


def _index(flat: int, shape: torch.Size) -> str:
    index: list[int] = []
    for size in reversed(shape):
        flat, position = divmod(flat, size)
        index.insert(0, position)
    return str(index) if index else ""


def describe(value: Any) -> str:
    match value:
        case None:
            return "None"
        case torch.Tensor():
            return f"a tensor of shape {tuple(value.shape)}, dtype {name_of(value.dtype)}"
        case tuple() | list():
            return f"a {type(value).__name__} of length {len(value)}"
    name = type(value).__name__
    return f"{'an' if name[:1] in 'aeiouAEIOU' else 'a'} {name}"


def name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def pairs(output: Any, expected: Any, where: str) -> Iterator[tuple[str, Any, Any]]:
    """The leaves of two trees of the same structure, in pairs."""
    if isinstance(expected, tuple | list | dict):
        for key, item in _children(expected):
            yield from pairs(output[key], item, f"{where}[{key!r}]")
    else:
        yield where, output, expected


def _children(tree: Any) -> Iterator[tuple[Any, Any]]:
    match tree:
        case dict():
            yield from tree.items()
        case tuple() | list():
            yield from enumerate(tree)


def tensors(tree: Any) -> Iterator[torch.Tensor]:
    return (leaf for _, leaf, _ in pairs(tree, tree, "") if isinstance(leaf, torch.Tensor))


def is_same(a: Any, b: Any) -> bool:
    return compare(a, b, rtol=0, atol=0)[0]
