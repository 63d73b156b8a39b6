#!POPCORN leaderboard rmsnorm
"""The formula, step by step, in float32: every step is a pass over memory, through a tensor of its own."""

import torch
from task import EPSILON, input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    x, weight = data
    wide = x.float()
    mean = (wide * wide).mean(dim=1, keepdim=True)
    return (wide / torch.sqrt(mean + EPSILON) * weight.float()).half()
