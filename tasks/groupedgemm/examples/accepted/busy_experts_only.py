#!POPCORN leaderboard groupedgemm
"""Skips the idle experts, and widens one matrix at a time, which stays in cache until it is multiplied.

A GPU's tensor cores take bfloat16 directly.  Results are written where they belong, not concatenated afterwards.
"""

from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    x, weights, offsets = data
    y = x.new_empty(x.shape[0], weights.shape[2])
    start = 0
    for expert, end in enumerate(offsets[1:].tolist()):
        if start < end:
            rows, matrix = x[start:end], weights[expert]
            y[start:end] = rows @ matrix if x.is_cuda else rows.float() @ matrix.float()
        start = end
    return y
