#!POPCORN leaderboard histogram
# Save this as submissions/histogram/<your login>/submission.py and open a pull request:
# a draft is tested and timed, one that is ready for review is ranked.
# Before that, on your own machine: pullrank test submission.py
"""Right and simple: a one for every key, added to the counter that the key names."""

import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    keys, bins = data
    counts = torch.zeros(bins, dtype=torch.int32, device=keys.device)
    return counts.scatter_add_(0, keys.long(), torch.ones_like(keys))
