#!POPCORN leaderboard cholesky
"""Overwrites the lower half of the matrix with the factor, as LAPACK does, and leaves the upper half as it was."""

from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    for j in range(data.shape[1]):
        explained = data[:, j:, :j] @ data[:, j, :j, None]
        column = data[:, j:, j] - explained[:, :, 0]
        data[:, j:, j] = column / column[:, :1].sqrt()
    return data
