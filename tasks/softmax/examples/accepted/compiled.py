#!POPCORN leaderboard softmax
#!POPCORN gpus A100 H100 H200 B200
#!PULLRANK needs triton
"""The textbook's formula, which torch.compile makes into one or two kernels."""

import torch
from task import input_t, output_t


@torch.compile
def softmax(data: input_t) -> output_t:
    powers = torch.exp(data - data.amax(dim=1, keepdim=True))
    return powers / powers.sum(dim=1, keepdim=True)


def custom_kernel(data: input_t) -> output_t:
    return softmax(data)
