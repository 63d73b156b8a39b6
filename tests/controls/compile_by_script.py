"""Compile with torch.jit.script, and return the script's own results: a named tuple, a list, an optional."""

import warnings

import torch

warnings.filterwarnings("ignore", category=DeprecationWarning)


@torch.jit.script
def sort_and_scale(values: torch.Tensor, scale: float) -> tuple[torch.Tensor, list[int]]:
    ordered = torch.sort(values)
    return ordered.values * scale, list(values.shape)


def custom_kernel(data):
    values, _, scale = data
    ordered, shape = sort_and_scale(values, scale)
    return ordered.view(shape)
