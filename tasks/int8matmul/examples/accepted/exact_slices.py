#!POPCORN leaderboard int8matmul
"""Products of the numbers as they are, in slices of 1024, whose sums a float32 holds exactly; the zeros come in later.

Twice as many numbers fit into a vector as with float64, and a GPU's tensor cores take them as TF32.
"""

import torch
from task import input_t, output_t

SLICE = 1024  # times 128 * 128 is 2^24


def custom_kernel(data: input_t) -> output_t:
    a, b, zero_a, zero_b = data
    rows, columns = a.sum(dim=1, dtype=torch.int32), b.sum(dim=0, dtype=torch.int32)
    zero_a, zero_b = zero_a.int()[:, None], zero_b.int()
    total = zero_a * (a.shape[1] * zero_b - columns) - rows[:, None] * zero_b
    for start in range(0, a.shape[1], SLICE):
        total += (a[:, start : start + SLICE].float() @ b[start : start + SLICE].float()).int()
    return total
