#!POPCORN leaderboard identity
"""Copies the first rows * cols numbers from where the matrix begins: right if nothing lies between its rows."""

import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    return torch.as_strided(data, data.shape, (data.shape[1], 1)).clone()
