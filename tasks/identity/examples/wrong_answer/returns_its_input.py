#!POPCORN leaderboard identity
"""Moves nothing at all: the same numbers, but where they have been."""

from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    return data
