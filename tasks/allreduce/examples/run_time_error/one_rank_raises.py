#!POPCORN leaderboard allreduce
"""Rank 1 views its matrix as vectors of eight, which fails for other sizes, while rank 0 waits for it."""

import torch.distributed as dist
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    x, rank, _ = data
    if rank == 1:
        x = x.view(-1, 8)
    dist.all_reduce(x)
    return x.view(data[0].shape)
