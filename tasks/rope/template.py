#!POPCORN leaderboard rope
# Save this as submissions/rope/<your login>/submission.py and open a pull request:
# a draft is tested and timed, one that is ready for review is ranked.
# Before that, on your own machine: pullrank test submission.py
"""Right and simple: x * cos + rotated * sin, where `rotated` holds the halves in each other's place."""

import torch
from task import BASE, input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    x, positions = data
    half = x.shape[2] // 2
    speeds = BASE ** -(torch.arange(half, dtype=torch.float64, device=x.device) / half)
    angles = (positions[:, None, None] * speeds).repeat(1, 1, 2)
    wide = x.float()
    rotated = torch.cat([-wide[:, :, half:], wide[:, :, :half]], dim=2)
    return (wide * angles.cos().float() + rotated * angles.sin().float()).half()
