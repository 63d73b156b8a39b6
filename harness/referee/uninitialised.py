"""Room that torch's functions leave unwritten in a task's generator, filled with bytes that are always the same.

`torch.empty` makes output buffers of whatever lay in the referee's memory.  That could be an answer, and no two calls
find the same there: nobody could replay a judgement.

The gap: classes do not tell a mode that they are called.  `torch.Tensor(3)`, `torch.FloatTensor(3)` and storages still
show what lay there; so do sparse and other tensors that are not strided.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

_MAKERS = {
    torch.empty,
    torch.empty_like,
    torch.empty_permuted,
    torch.empty_strided,
    torch.Tensor.new_empty,
    torch.Tensor.new_empty_strided,
}
_GROWERS = {torch.Tensor.resize_, torch.Tensor.resize_as_, torch.resize_as_}


class FillUninitialised(TorchFunctionMode):
    """While it is active, new room holds 0xFF in every byte: NaN in most floats, -1 in integers."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        written = _bytes_of(args[0]) if func in _GROWERS else 0
        made = func(*args, **kwargs)
        if func in _MAKERS or func in _GROWERS or (func is torch.Tensor.new and _is_size(args[1:], kwargs)):
            _fill(made, written)
        return made


def _is_size(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether `Tensor.new` is given a shape, and no data."""
    return "size" in kwargs or all(isinstance(arg, int | torch.Size) for arg in args)


def _bytes_of(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().nbytes() if tensor.layout is torch.strided else 0


def _fill(tensor: torch.Tensor, start: int) -> None:
    """Fill the room from its byte `start` on."""
    if _bytes_of(tensor) > start:
        room = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage())
        # A bool of other bits than these is neither True nor False.
        room[start:].fill_(1 if tensor.dtype is torch.bool else 0xFF)
