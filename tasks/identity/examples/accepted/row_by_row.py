#!POPCORN leaderboard identity
"""One strided copy: rows are read and written in one piece each, and nothing is computed."""

from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    return data.contiguous()
