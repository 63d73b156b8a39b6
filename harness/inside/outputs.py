"""In the player: describe a kernel's output as JSON, and apply a function to its tensors."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from harness.inside.protocol import ITEM_BYTES, MAX_DEPTH

_DTYPE_NAMES = {getattr(torch, name): name for name in ITEM_BYTES if hasattr(torch, name)}
_SCALARS = (bool, int, float, str, type(None))
_MAX_BITS = 10_000
"""Limit for an integer: Python refuses to parse numbers of more than 4300 digits."""


def map_tensors(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """Apply a function to all plain tensors of a nested value; the nesting stays the same."""
    if type(value) in (torch.Tensor, torch.nn.Parameter) and value.layout is torch.strided:
        return change(value)
    if isinstance(value, dict):
        return {key: map_tensors(item, change) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)([map_tensors(item, change) for item in value])
    return value


class OutputPlace(NamedTuple):
    """Where the tensors of an output must be: torch's name of the device, and the address to give for a tensor."""

    device: str
    address: Callable[[torch.Tensor], int]


HOST = OutputPlace("cpu", torch.Tensor.data_ptr)


def describe(value: Any, depth: int = 0, place: OutputPlace = HOST) -> str:
    """Describe a kernel's output in the grammar of `protocol`.

    Written by hand because its time is in the window.  Values that the referee could not parse become objects: an
    honest player must not look like a forger.
    """
    kind = type(value)
    if kind is torch.Tensor or kind is torch.nn.Parameter:
        return _describe_tensor(value, place)
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        return json.dumps({"object": f"an integer of {value.bit_length()} bits"})
    if isinstance(value, _SCALARS):  # with subclasses: numpy's float64 is a float
        return json.dumps(value)
    if depth > MAX_DEPTH:
        return json.dumps({"object": f"a structure of more than {MAX_DEPTH} levels"})
    if isinstance(value, tuple):
        return f'{{"tuple":[{",".join([describe(item, depth + 1, place) for item in value])}]}}'
    if kind is list:
        return f"[{','.join([describe(item, depth + 1, place) for item in value])}]"
    if isinstance(value, dict):
        pairs = [f"[{json.dumps(key)},{describe(item, depth + 1, place)}]" for key, item in value.items()]
        return f'{{"dict":[{",".join(pairs)}]}}'
    return json.dumps({"object": kind.__name__})


def _describe_tensor(tensor: torch.Tensor, place: OutputPlace) -> str:
    dtype = _DTYPE_NAMES.get(tensor.dtype)
    if tensor.layout is not torch.strided or tensor.device.type != place.device or dtype is None:
        return json.dumps({"object": f"a Tensor of {tensor.dtype}, {tensor.layout}, on {tensor.device.type}"})
    if tensor.is_neg() or (tensor.is_complex() and tensor.is_conj()):
        return json.dumps({"object": "a lazily negated or conjugated Tensor (call resolve_neg() or resolve_conj())"})
    shape, strides = list(tensor.shape), list(tensor.stride())
    return f'{{"dtype":"{dtype}","shape":{shape},"strides":{strides},"at":{place.address(tensor)}}}'
