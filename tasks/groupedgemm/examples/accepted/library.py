#!POPCORN leaderboard groupedgemm
"""PyTorch's own.  A GPU takes rows of 16 bytes: if k or n is not a multiple of 8, zeros fill them up."""

from task import input_t, output_t
from torch.nn.functional import grouped_mm, pad


def custom_kernel(data: input_t) -> output_t:
    x, weights, offsets = data
    k, n = weights.shape[1:]
    if k % 8 or n % 8:
        x, weights = pad(x, (0, -k % 8)), pad(weights, (0, -n % 8, 0, -k % 8))
    return grouped_mm(x, weights, offs=offsets[1:])[:, :n].contiguous()
