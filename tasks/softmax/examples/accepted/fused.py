#!POPCORN leaderboard softmax
"""PyTorch's fused softmax: a row stays in cache between its maximum, its sum and its quotients."""

import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    return torch.softmax(data, dim=1)
