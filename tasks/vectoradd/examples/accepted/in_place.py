#!POPCORN leaderboard vectoradd
"""One pass: the sum goes where `a` was.  No new memory is touched, and float16 needs no help to round right."""

from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    a, b = data
    return a.add_(b)
