"""Convert nested values of tensors for the transfer between referee and player.

`flatten` splits a task's input into the tree and the tensors' specs (which a player may know early), the scalars
(which it may not), and the tensors themselves.  `collect` copies the tensors that a `Done` message describes from the
player's memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from harness.inside.protocol import (
    ITEM_BYTES,
    MAX_DEPTH,
    MAX_DIMENSIONS,
    MAX_LEAVES,
    MAX_MESSAGE,
    TensorSpec,
    Unsupported,
    tensors_of,
    write,
)
from harness.records.verdict import Foul, Verdict
from harness.reference.spare_memory import ran_out
from harness.reference.trees import map_leaves

DTYPES = {name: getattr(torch, name) for name in ITEM_BYTES if hasattr(torch, name)}
_NAMES = {dtype: name for name, dtype in DTYPES.items()}

_CPU = torch.device("cpu")
_SLACK_BYTES = 64 << 20
_SLACK_FACTOR = 2
"""An output may span this many times what a right one does, plus slack: the limit must not depend on the player."""


class UnsupportedInput(Exception):
    """A task's generator returned a value that cannot be sent to a player."""


@dataclass
class Flattened:
    """One call's input, split for the transfer."""

    data: Any = None
    device: torch.device = _CPU
    tree: Any = None
    tensors: list[torch.Tensor] = field(default_factory=list)
    scalars: list[Any] = field(default_factory=list)
    nodes: int = 0

    @property
    def layout(self) -> dict[str, Any]:
        """What a player needs to allocate memory: structure, dtypes, shapes, strides; no values."""
        specs = [(_NAMES[t.dtype], tuple(t.shape), t.stride()) for t in self.tensors]
        return {"tree": self.tree, "tensors": specs}

    @property
    def span_bytes(self) -> int:
        return sum(span_bytes(tensor) for tensor in self.tensors)


def flatten(data: Any, device: torch.device = _CPU) -> Flattened:
    """Split a task's input for the transfer, with its tensors on `device`.

    Raises:
        UnsupportedInput: neither tensor, scalar, tuple, list nor dict; or an unsupported tensor; or too large.
    """
    result = Flattened(data, device)
    result.tree = _flatten(data, result)
    # The same limits as for a player's output: a reference must not return what a player cannot.
    if result.nodes > MAX_LEAVES or len(write(result.layout)) > MAX_MESSAGE // 2:
        raise UnsupportedInput(f"more than {MAX_LEAVES} values, or a structure too large to describe")
    if len(write({"scalars": result.scalars})) > MAX_MESSAGE // 2:
        raise UnsupportedInput(f"text of more than {MAX_MESSAGE // 2} bytes")
    return result


def _flatten(node: Any, result: Flattened, depth: int = 0) -> Any:
    result.nodes += 1
    if depth > MAX_DEPTH:
        raise UnsupportedInput(f"more than {MAX_DEPTH} levels")
    if isinstance(node, torch.Tensor):
        result.tensors.append(_compact(node, result.device))
        return {"tensor": len(result.tensors) - 1}
    if node is None or isinstance(node, bool | int | float | str):
        result.scalars.append(node)
        return {"scalar": len(result.scalars) - 1}
    if isinstance(node, tuple):
        return {"tuple": [_flatten(item, result, depth + 1) for item in node]}
    if isinstance(node, list):
        return [_flatten(item, result, depth + 1) for item in node]
    if isinstance(node, dict) and all(isinstance(key, str | int) for key in node):
        return {"dict": [[key, _flatten(item, result, depth + 1)] for key, item in node.items()]}
    raise UnsupportedInput(f"{type(node).__name__} is neither tensor, scalar, tuple, list nor dict")


def _compact(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """The tensor in memory of its own, because gaps between its elements are transferred as well."""
    tensor = tensor.detach().resolve_conj().resolve_neg()
    if tensor.dtype not in _NAMES or tensor.layout is not torch.strided or tensor.dim() > MAX_DIMENSIONS:
        what = f"a tensor of dtype {tensor.dtype}, layout {tensor.layout} and {tensor.dim()} dimensions"
        raise UnsupportedInput(what)
    if span_bytes(tensor) == tensor.numel() * tensor.element_size():
        return tensor.to(device)
    if 0 in tensor.stride():
        return tensor.to(device).contiguous()
    # Not `to`, which removes gaps: a kernel must see the same strides on every board.
    span = torch.zeros(span_bytes(tensor) // tensor.element_size(), dtype=tensor.dtype, device=device)
    return span.as_strided(tensor.shape, tensor.stride()).copy_(tensor)


def span_bytes(tensor: torch.Tensor) -> int:
    """Bytes from a tensor's first to its last element, gaps included."""
    if tensor.numel() == 0:
        return 0
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return (last + 1) * tensor.element_size()


Read = Callable[[int, int, int], None]
"""`read(address, target, length)` copies bytes from where a player has put its output."""


def collect(tree: Any, read: Read, usual_bytes: int, device: torch.device = _CPU) -> Any:
    """Copy the output that a player described.

    Args:
        read: copies to memory of `device`.
        usual_bytes: size of a right output without gaps.

    Raises:
        Foul: something in it is neither tensor nor scalar, is too large, or is not in the player's memory.
    """
    allowed = _SLACK_FACTOR * usual_bytes + _SLACK_BYTES
    # Also count elements: a stride of 0 makes a tensor of any size from one element.
    total = sum(max(spec.span_bytes, spec.elements * ITEM_BYTES[spec.dtype]) for spec in tensors_of(tree))
    if total > allowed:
        message = f"The output spans {total} bytes; the limit is {allowed}. Return contiguous tensors."
        raise Foul(Verdict.WRONG_ANSWER, message)
    try:
        return map_leaves(tree, lambda leaf: _rebuilt(leaf, read, device))
    except (MemoryError, RuntimeError) as error:
        if total <= usual_bytes or not ran_out(error):
            raise
        message = f"The output spans {total} bytes, which do not fit here. A correct output has {usual_bytes}."
        raise Foul(Verdict.WRONG_ANSWER, message) from None


def _rebuilt(leaf: Any, read: Read, device: torch.device) -> Any:
    match leaf:
        case TensorSpec():
            return _fetch(leaf, read, device)
        case Unsupported(name):
            raise Foul(Verdict.WRONG_ANSWER, f"custom_kernel returned {name}, which is not a plain torch.Tensor.")
    return leaf


def _fetch(spec: TensorSpec, read: Read, device: torch.device) -> torch.Tensor:
    if spec.dtype not in DTYPES:
        raise Foul(Verdict.WRONG_ANSWER, f"The output's dtype is {spec.dtype}, which this judge does not support.")
    memory = torch.empty(spec.span_bytes, dtype=torch.uint8, device=device)
    read(spec.address, memory.data_ptr(), spec.span_bytes)
    if spec.dtype == "bool":
        # Normalise: a bool byte other than 0 and 1 would equal neither.
        memory = memory.ne(0).view(torch.uint8)
    try:
        return memory.view(DTYPES[spec.dtype]).as_strided(spec.shape, spec.strides)
    except RuntimeError as error:
        raise Foul(Verdict.WRONG_ANSWER, f"The output is not a valid torch tensor: {error}") from None


def elements_of(span: torch.Tensor, spec: TensorSpec) -> torch.Tensor:
    """View a tensor's elements in `span`, its bytes from first to last; one more dimension, for an element's bytes."""
    size = ITEM_BYTES[spec.dtype]
    shape = [1 if stride == 0 else length for length, stride in zip(spec.shape, spec.strides, strict=True)]
    return span.as_strided((*shape, size), (*[stride * size for stride in spec.strides], 1))
