#!POPCORN leaderboard sparse24matmul
#!POPCORN gpus A100 H100 H200 B200
#!PULLRANK needs triton
"""Compares each place of a group with both indices, in kernels that torch.compile makes; the library multiplies."""

import torch
from task import input_t, output_t


@torch.compile
def product(data: input_t) -> output_t:
    x, values, indices = data
    rows, kept = values.shape
    shifts = torch.arange(0, 8, 2, device=x.device)
    index = (indices[:, :, None].int() >> shifts & 3).view(rows, kept // 2, 2, 1)
    pairs = values.view(rows, kept // 2, 2, 1)
    is_here = index == torch.arange(4, device=x.device)
    dense = torch.where(is_here, pairs, 0.0).sum(dim=2).view(rows, 2 * kept)
    return x @ dense.T


def custom_kernel(data: input_t) -> output_t:
    return product(data)
