#!POPCORN leaderboard rope
#!POPCORN gpus A100 H100 H200 B200
#!PULLRANK needs triton
"""The textbook's formula, which torch.compile makes into one or two kernels."""

import torch
from task import BASE, input_t, output_t


@torch.compile
def rotate(data: input_t) -> output_t:
    x, positions = data
    half = x.shape[2] // 2
    speeds = BASE ** -(torch.arange(half, dtype=torch.float64, device=x.device) / half)
    angles = (positions[:, None, None] * speeds).repeat(1, 1, 2)
    wide = x.float()
    rotated = torch.cat([-wide[:, :, half:], wide[:, :, :half]], dim=2)
    return (wide * angles.cos().float() + rotated * angles.sin().float()).half()


def custom_kernel(data: input_t) -> output_t:
    return rotate(data)
