#!POPCORN leaderboard allreduce
# Save this as submissions/allreduce/<your login>/submission.py and open a pull request:
# a draft is tested and timed, one that is ready for review is ranked.
# Before that, on your own machine: pullrank test submission.py
"""Right and simple: every rank gets all matrices, and adds them."""

import torch
import torch.distributed as dist
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    x, _, world_size = data
    parts = [torch.empty_like(x) for _ in range(world_size)]
    dist.all_gather(parts, x)
    return torch.stack(parts).float().sum(dim=0).bfloat16()
