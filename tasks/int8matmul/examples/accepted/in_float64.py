#!POPCORN leaderboard int8matmul
"""Differences, products and sums in float64: exact up to 2^53, and eight times as wide as the numbers that came in."""

from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    a, b, zero_a, zero_b = (tensor.double() for tensor in data)
    return ((a - zero_a[:, None]) @ (b - zero_b)).int()
