#!POPCORN leaderboard sort
"""The radix sort's trick: turn the bits of floats into integers of the same order, sort those, and turn them back.

It orders all numbers, but knows nothing of NaNs: those with a sign come before minus infinity.
"""

import torch
from task import input_t, output_t


def in_order(bits: torch.Tensor) -> torch.Tensor:
    """Negative floats grow towards zero as integers: turn all their bits but the sign.  Its own inverse."""
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)


def custom_kernel(data: input_t) -> output_t:
    keys = torch.sort(in_order(data.view(torch.int32))).values
    return in_order(keys).view(torch.float32)
