#!POPCORN leaderboard fp8matmul
"""Multiplies the numbers as they are, and scales the sums of 128 products, as a kernel for tensor cores does.

A float16 with the sign of a float8_e4m3fn, a zero bit, and then its other seven bits is the same number divided by 256,
subnormal or not.  A CPU widens those quickly.
"""

import torch
from task import BLOCK, input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    a, b, a_scale, b_scale = data
    a, b = widened(a), widened(b)
    b_scale = b_scale.mul(256 * 256).repeat_interleave(BLOCK, dim=0)[: b.shape[0]]
    total = torch.zeros(a.shape[0], b.shape[0], device=a.device)
    for block in range(a_scale.shape[1]):
        part = slice(block * BLOCK, (block + 1) * BLOCK)
        scale = torch.outer(a_scale[:, block], b_scale[:, block])
        total.addcmul_(a[:, part] @ b[:, part].mT, scale)
    return total.bfloat16()


def widened(numbers: torch.Tensor) -> torch.Tensor:
    """The numbers in float32, divided by 256."""
    bits = numbers.view(torch.int8).to(torch.int16) << 7
    return (bits & ~0x4000).view(torch.float16).float()
