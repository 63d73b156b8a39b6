#!POPCORN leaderboard softmax
# Save this as submissions/softmax/<your login>/submission.py and open a pull request:
# a draft is tested and timed, one that is ready for review is ranked.
# Before that, on your own machine: pullrank test submission.py
"""Right and simple: the textbook's formula, one pass over memory for each of its steps."""

import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    powers = torch.exp(data - data.amax(dim=1, keepdim=True))
    return powers / powers.sum(dim=1, keepdim=True)
