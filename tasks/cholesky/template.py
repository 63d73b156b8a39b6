#!POPCORN leaderboard cholesky
# Save this as submissions/cholesky/<your login>/submission.py and open a pull request:
# a draft is tested and timed, one that is ready for review is ranked.
# Before that, on your own machine: pullrank test submission.py
"""Right and simple: the textbook's formula, column by column."""

import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    factor = torch.zeros_like(data)
    for j in range(data.shape[1]):
        explained = factor[:, j:, :j] @ factor[:, j, :j, None]
        column = data[:, j:, j] - explained[:, :, 0]
        factor[:, j:, j] = column / column[:, :1].sqrt()
    return factor
