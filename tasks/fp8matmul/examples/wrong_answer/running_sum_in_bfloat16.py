#!POPCORN leaderboard fp8matmul
"""Sums 128 products in float32, but adds those sums up in bfloat16, the type of the result.

One rounding for each block: harmless with few blocks, too much with the 64 of k = 8192.
"""

import torch
from task import BLOCK, input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    a, b, a_scale, b_scale = data
    b_scale = b_scale.repeat_interleave(BLOCK, dim=0)[: b.shape[0]]
    total = torch.zeros(a.shape[0], b.shape[0], dtype=torch.bfloat16, device=a.device)
    for block in range(a_scale.shape[1]):
        part = slice(block * BLOCK, (block + 1) * BLOCK)
        scale = torch.outer(a_scale[:, block], b_scale[:, block])
        total += ((a[:, part].float() @ b[:, part].float().mT) * scale).bfloat16()
    return total
