#!POPCORN leaderboard groupedgemm
"""Everything in float32, one product for each expert, whether it has tokens or not."""

import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    x, weights, offsets = data
    bounds = offsets.tolist()
    groups = zip(weights.float(), x.float().tensor_split(bounds[1:-1]), strict=True)
    return torch.cat([rows @ matrix for matrix, rows in groups]).bfloat16()
