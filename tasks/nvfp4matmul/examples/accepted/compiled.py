#!POPCORN leaderboard nvfp4matmul
#!POPCORN gpus H100 H200 B200
#!PULLRANK needs triton
"""Looks up and scales the numbers in kernels that torch.compile makes; the library multiplies them.

Each scaled number is exact in bfloat16: two significant bits times four.
"""

import torch
from task import GROUP, NUMBERS, input_t, output_t


@torch.compile
def product(data: input_t) -> output_t:
    a, b, a_scale, b_scale, a_global, b_global = data
    return ((scaled(a, a_scale) @ scaled(b, b_scale).mT).float() * (a_global * b_global)).bfloat16()


def scaled(codes: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    numbers = torch.tensor(NUMBERS, dtype=torch.bfloat16, device=codes.device)
    pairs = torch.stack((codes & 15, codes >> 4), dim=2)
    groups = numbers[pairs.int()].view(*scale.shape, GROUP)
    return (groups * scale.bfloat16()[:, :, None]).flatten(1)


def custom_kernel(data: input_t) -> output_t:
    return product(data)
