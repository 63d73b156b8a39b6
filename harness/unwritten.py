"""Room that a task's generator leaves unwritten, filled with bytes that are always the same.

`torch.empty` makes output buffers of whatever lay in the referee's memory.  That could be an answer, and no two calls
find the same there: nobody could replay a judgement.
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


class Filled(TorchFunctionMode):
    """While it is active, new tensors hold 0xFF in every byte: NaN in most floats, -1 in integers."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        if func in _MAKERS:
            # A bool of other bits than these is neither True nor False.
            made.untyped_storage().fill_(1 if made.dtype is torch.bool else 0xFF)
        return made
