#!POPCORN leaderboard identity
# Save this as submissions/identity/<your login>/submission.py and open a pull request:
# a draft is tested and timed, one that is ready for review is ranked.
# Before that, on your own machine: pullrank test submission.py
"""Right and simple: every number of the output looks up where it comes from."""

import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    rows, cols = data.shape
    pitch = data.stride(0)
    memory = data.as_strided(((rows - 1) * pitch + cols,), (1,))
    starts = torch.arange(rows, device=data.device) * pitch
    return memory[starts[:, None] + torch.arange(cols, device=data.device)]
