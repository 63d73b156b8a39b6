#!POPCORN leaderboard rmsnorm
"""Right to the last digit, but never rounded: the numbers are float32, where float16 was asked for."""

import torch
from task import EPSILON, input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    x, weight = data
    wide = x.float()
    return wide * torch.rsqrt(wide.square().mean(dim=1, keepdim=True) + EPSILON) * weight
