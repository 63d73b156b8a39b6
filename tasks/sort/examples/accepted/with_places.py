#!POPCORN leaderboard sort
"""PyTorch's own sort.  It drags along where each number was, in 64 bits beside its 32, and nobody has asked."""

import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    numbers, _places = torch.sort(data)
    return numbers
