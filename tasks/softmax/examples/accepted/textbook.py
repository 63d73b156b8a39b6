#!POPCORN leaderboard softmax
"""The textbook's formula, step by step: maximum, difference, exponential, sum, quotient.

Five passes over memory, and three tensors that did not have to exist.
"""

import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    powers = torch.exp(data - data.amax(dim=1, keepdim=True))
    return powers / powers.sum(dim=1, keepdim=True)
