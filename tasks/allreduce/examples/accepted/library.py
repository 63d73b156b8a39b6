#!POPCORN leaderboard allreduce
"""The library's all-reduce, in place."""

import torch.distributed as dist
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    x, _, _ = data
    dist.all_reduce(x)
    return x
