#!POPCORN leaderboard identity
"""Sees the matrix as one long vector, which it is only where the pitch equals the number of columns."""

from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    return data.view(-1).clone().view(data.shape)
