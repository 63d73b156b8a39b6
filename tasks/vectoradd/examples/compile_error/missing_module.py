#!POPCORN leaderboard vectoradd
"""Imports a library of its author's own, which is on no machine but theirs."""

from alices_fast_kernels import add
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    a, b = data
    return add(a, b)
