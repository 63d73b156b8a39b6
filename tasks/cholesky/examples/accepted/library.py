#!POPCORN leaderboard cholesky
"""PyTorch's own: LAPACK's blocks on a CPU, one matrix after the other; a batched kernel on a GPU."""

import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    return torch.linalg.cholesky(data)
