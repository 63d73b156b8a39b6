#!POPCORN leaderboard conv2d
# Save this as submissions/conv2d/<your login>/submission.py and open a pull request:
# a draft is tested and timed, one that is ready for review is ranked.
# Before that, on your own machine: pullrank test submission.py
"""Right and simple: write all patches side by side into a matrix, and multiply the filters with it."""

import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    x, weight, stride, padding = data
    filters, size = weight.shape[0], weight.shape[2]
    height, width = ((length + 2 * padding - size) // stride + 1 for length in x.shape[2:])
    patches = torch.nn.functional.unfold(x.float(), size, stride=stride, padding=padding)
    output = weight.view(filters, -1).float() @ patches
    return output.view(x.shape[0], filters, height, width).half()
