#!POPCORN leaderboard rmsnorm
#!POPCORN gpus A100 H100 H200 B200
#!PULLRANK needs triton
"""The textbook's formula, which torch.compile makes into one or two kernels."""

import torch
from task import EPSILON, input_t, output_t


@torch.compile
def rms_norm(data: input_t) -> output_t:
    x, weight = data
    wide = x.float()
    mean = (wide * wide).mean(dim=1, keepdim=True)
    return (wide / torch.sqrt(mean + EPSILON) * weight.float()).half()


def custom_kernel(data: input_t) -> output_t:
    return rms_norm(data)
