#!POPCORN leaderboard matmul
# Save this as submissions/matmul/<your login>/submission.py and open a pull request:
# a draft is tested and timed, one that is ready for review is ranked.
# Before that, on your own machine: pullrank test submission.py
"""Right and simple: one slice of 16 columns of `a` and 16 rows of `b` at a time, summed in float32."""

import torch
from task import input_t, output_t

SLICE = 16


def custom_kernel(data: input_t) -> output_t:
    a, b = data
    total = torch.zeros(a.shape[0], b.shape[1], device=a.device)
    for start in range(0, a.shape[1], SLICE):
        total.addmm_(a[:, start : start + SLICE].float(), b[start : start + SLICE].float())
    return total.half()
