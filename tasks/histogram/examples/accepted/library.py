#!POPCORN leaderboard histogram
"""PyTorch's own counting, which reads the keys as they are; on a GPU, every block counts in its shared memory first."""

import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    keys, bins = data
    return torch.bincount(keys, minlength=bins).int()
