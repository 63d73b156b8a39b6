#!POPCORN leaderboard rmsnorm
# Save this as submissions/rmsnorm/<your login>/submission.py and open a pull request:
# a draft is tested and timed, one that is ready for review is ranked.
# Before that, on your own machine: pullrank test submission.py
"""Right and simple: the formula, step by step, in float32."""

import torch
from task import EPSILON, input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    x, weight = data
    wide = x.float()
    mean = (wide * wide).mean(dim=1, keepdim=True)
    return (wide / torch.sqrt(mean + EPSILON) * weight.float()).half()
