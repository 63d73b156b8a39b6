#!POPCORN leaderboard fp8matmul
#!POPCORN gpus H100 H200 B200
#!PULLRANK needs triton
"""Scales the numbers and rounds them to bfloat16 in kernels that torch.compile makes; the library multiplies them."""

import torch
from task import BLOCK, input_t, output_t


@torch.compile
def product(data: input_t) -> output_t:
    a, b, a_scale, b_scale = data
    n, k = b.shape
    a_scale = a_scale.repeat_interleave(BLOCK, dim=1)[:, :k]
    b_scale = b_scale.repeat_interleave(BLOCK, dim=0)[:n].repeat_interleave(BLOCK, dim=1)[:, :k]
    return (a.float() * a_scale).bfloat16() @ (b.float() * b_scale).bfloat16().mT


def custom_kernel(data: input_t) -> output_t:
    return product(data)
