#!POPCORN leaderboard matmul
"""Three loops in Python, as one learns it: right, and some ten thousand times too slow."""

import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    a, b = data
    output = torch.empty(a.shape[0], b.shape[1], dtype=a.dtype, device=a.device)
    for row, numbers in enumerate(a.tolist()):
        for column in range(b.shape[1]):
            total = 0.0
            for i, number in enumerate(numbers):
                total += number * b[i, column].item()
            output[row, column] = total
    return output
