#!POPCORN leaderboard rmsnorm
"""Widens once, and then works in place: no memory is touched for the first time but that of the wide numbers.

The sum of the squares is a norm, for which nothing has to be written; the result goes where `x` was.
"""

import torch
from task import EPSILON, input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    x, weight = data
    wide = x.float()
    norm = torch.linalg.vector_norm(wide, dim=1, keepdim=True)
    wide *= torch.rsqrt(norm * norm / x.shape[1] + EPSILON)
    wide *= weight
    return x.copy_(wide)
