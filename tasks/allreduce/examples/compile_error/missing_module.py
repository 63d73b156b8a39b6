#!POPCORN leaderboard allreduce
"""Imports a library that only its author has."""

from alices_fast_kernels import all_reduce
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    x, _, _ = data
    return all_reduce(x)
