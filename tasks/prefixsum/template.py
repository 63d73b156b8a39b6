#!POPCORN leaderboard prefixsum
# Save this as submissions/prefixsum/<your login>/submission.py and open a pull request:
# a draft is tested and timed, one that is ready for review is ranked.
# Before that, on your own machine: pullrank test submission.py
"""Right and simple: add what stands 1, 2, 4, 8, ... places before, until nothing does (Hillis and Steele, 1986)."""

import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    sums, distance = data, 1
    while distance < sums.numel():
        sums = torch.cat([sums[:distance], sums[distance:] + sums[:-distance]])
        distance *= 2
    return sums
