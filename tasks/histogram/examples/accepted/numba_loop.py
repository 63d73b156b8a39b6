#!POPCORN leaderboard histogram
#!PULLRANK needs numba
"""One loop over the keys, compiled by Numba: nothing is made but the counters.

`cache=True` keeps what the build has compiled; every other player finds it there.
"""

import numba
import numpy as np
import torch
from task import input_t, output_t


@numba.njit(cache=True)
def count(keys: np.ndarray, counts: np.ndarray) -> None:
    for key in keys:
        counts[key] += 1


def custom_kernel(data: input_t) -> output_t:
    keys, bins = data
    counts = torch.zeros(bins, dtype=torch.int32)
    count(keys.numpy(), counts.numpy())
    return counts
