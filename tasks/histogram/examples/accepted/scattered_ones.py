#!POPCORN leaderboard histogram
"""A one for every key, added to the counter that the key names.

The ones take as much memory as the keys, the keys as indices twice as much, and a GPU's threads queue at hot counters.
"""

import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    keys, bins = data
    counts = torch.zeros(bins, dtype=torch.int32, device=keys.device)
    return counts.scatter_add_(0, keys.long(), torch.ones_like(keys))
