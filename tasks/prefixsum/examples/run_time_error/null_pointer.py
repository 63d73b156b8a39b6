#!POPCORN leaderboard prefixsum
"""Hands its result to native code through a pointer, but never allocates it: an empty tensor's pointer is null.

The process dies of a segmentation fault.
"""

import ctypes

import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    sums = torch.cumsum(data, dim=0)
    output = torch.empty(0)
    ctypes.memmove(output.data_ptr(), sums.data_ptr(), 4 * sums.numel())
    return output
