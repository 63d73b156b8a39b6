#!POPCORN leaderboard int8matmul
#!PULLRANK needs numba
"""Differences and sums in int32, row by row, compiled by Numba: whole numbers all the way, and nothing to be rounded.

The innermost loop walks along a row of `b`, so that eight numbers and more are multiplied at once.  `cache=True` keeps
what the build has compiled; every other player finds it there.
"""

import numba
import numpy as np
from task import input_t, output_t


@numba.njit(cache=True)
def multiply(left: np.ndarray, right: np.ndarray, output: np.ndarray) -> None:
    for row in range(left.shape[0]):
        for inner in range(left.shape[1]):
            factor = left[row, inner]
            for column in range(right.shape[1]):
                output[row, column] += np.int32(factor * right[inner, column])


def custom_kernel(data: input_t) -> output_t:
    a, b, zero_a, zero_b = (tensor.int() for tensor in data)
    output = a.new_zeros(a.shape[0], b.shape[1])
    multiply((a - zero_a[:, None]).numpy(), (b - zero_b).numpy(), output.numpy())
    return output
