#!POPCORN leaderboard vectoradd
"""The careful way: widen both, add in float32, round once.

Four passes over memory, three of them through new tensors of twice the size.
"""

from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    a, b = data
    return (a.float() + b.float()).half()
