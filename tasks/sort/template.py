#!POPCORN leaderboard sort
# Save this as submissions/sort/<your login>/submission.py and open a pull request:
# a draft is tested and timed, one that is ready for review is ranked.
# Before that, on your own machine: pullrank test submission.py
"""Right and simple: PyTorch's own sort, which also says where each number was; nobody has asked."""

import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    numbers, _places = torch.sort(data)
    return numbers
