#!POPCORN leaderboard rope
"""Angles in float64, but only one for each pair, and reduced to one turn: their sines can do with float32.

The halves are turned one after the other, without a tensor that holds them in each other's place.
"""

import math

import torch
from task import BASE, input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    x, positions = data
    half = x.shape[2] // 2
    speeds = BASE ** -(torch.arange(half, dtype=torch.float64, device=x.device) / half)
    angles = (positions[:, None, None] * speeds).remainder_(2 * math.pi).float()
    cos, sin = angles.cos(), angles.sin()
    wide = x.float()
    first, second = wide[:, :, :half], wide[:, :, half:]
    x[:, :, :half] = (first * cos).addcmul_(second, sin, value=-1)
    x[:, :, half:] = (second * cos).addcmul_(first, sin)
    return x
