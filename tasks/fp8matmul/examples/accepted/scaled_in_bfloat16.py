#!POPCORN leaderboard fp8matmul
"""Rounds the scaled numbers to bfloat16, which the task allows: then one call does the rest.

A GPU's tensor cores take bfloat16 directly.  For a CPU the numbers are widened again.
"""

from task import BLOCK, input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    a, b, a_scale, b_scale = data
    n, k = b.shape
    a_scale = a_scale.repeat_interleave(BLOCK, dim=1)[:, :k]
    b_scale = b_scale.repeat_interleave(BLOCK, dim=0)[:n].repeat_interleave(BLOCK, dim=1)[:, :k]
    a, b = (a.float() * a_scale).bfloat16(), (b.float() * b_scale).bfloat16()
    return a @ b.mT if a.is_cuda else (a.float() @ b.float().mT).bfloat16()
