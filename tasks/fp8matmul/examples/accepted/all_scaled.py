#!POPCORN leaderboard fp8matmul
"""The formula, step by step, in float32: every number gets a scale of its own, and is four times as wide as it came."""

from task import BLOCK, input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    a, b, a_scale, b_scale = data
    n, k = b.shape
    a_scale = a_scale.repeat_interleave(BLOCK, dim=1)[:, :k]
    b_scale = b_scale.repeat_interleave(BLOCK, dim=0)[:n].repeat_interleave(BLOCK, dim=1)[:, :k]
    return ((a.float() * a_scale) @ (b.float() * b_scale).mT).bfloat16()
