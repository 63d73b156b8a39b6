#!POPCORN leaderboard histogram
"""Gives every key a row with a one in the column of its bin, and sums the columns.

No counter is shared, and nobody waits; but 300,000 rows of 10,000 columns are 24 GB, on a board that grants 4 GiB.
"""

import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    keys, bins = data
    return torch.nn.functional.one_hot(keys.long(), bins).sum(dim=0).int()
