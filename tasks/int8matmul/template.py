#!POPCORN leaderboard int8matmul
# Save this as submissions/int8matmul/<your login>/submission.py and open a pull request:
# a draft is tested and timed, one that is ready for review is ranked.
# Before that, on your own machine: pullrank test submission.py
"""Right and simple: all in float64, which is exact up to 2^53, and eight times as wide as the numbers that came in."""

from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    a, b, zero_a, zero_b = (tensor.double() for tensor in data)
    return ((a - zero_a[:, None]) @ (b - zero_b)).int()
