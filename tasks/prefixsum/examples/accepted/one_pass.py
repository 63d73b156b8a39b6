#!POPCORN leaderboard prefixsum
"""PyTorch's own scan: one pass, with the running sum in a register (of a float64 on a CPU)."""

import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    return torch.cumsum(data, dim=0)
