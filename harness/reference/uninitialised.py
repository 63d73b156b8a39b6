"""Fill uninitialised memory of a task's generator with constant bytes.

`torch.empty` makes output buffers from whatever is in the referee's memory.  That could be an expected output, and it
differs between calls, so that judgements could not be replayed.

Limitation: a `TorchFunctionMode` does not see calls of classes.  `torch.Tensor(3)`, `torch.FloatTensor(3)` and storages
still expose old memory, and so do sparse and other non-strided tensors.
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
    """While active, fill new memory with 0xFF bytes: NaN in most float formats, -1 in integers."""

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
    """Whether `Tensor.new` is called with a shape, not with data."""
    return "size" in kwargs or all(isinstance(arg, int | torch.Size) for arg in args)


def _bytes_of(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().nbytes() if tensor.layout is torch.strided else 0


def _fill(tensor: torch.Tensor, start: int) -> None:
    """Fill a tensor's storage from byte `start` on."""
    if _bytes_of(tensor) > start:
        room = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage())
        # A bool must be stored as 0 or 1.
        room[start:].fill_(1 if tensor.dtype is torch.bool else 0xFF)
