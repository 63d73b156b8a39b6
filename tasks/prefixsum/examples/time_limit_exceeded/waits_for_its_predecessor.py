#!POPCORN leaderboard prefixsum
"""Each block waits until its predecessor has published its sum, but blocks are taken from the last to the first.

A GPU that schedules blocks in the wrong order hangs just so.  One block alone has nobody to wait for.
"""

import torch
from task import input_t, output_t

BLOCK = 4096


def custom_kernel(data: input_t) -> output_t:
    blocks = list(torch.cumsum(block, dim=0) for block in data.split(BLOCK))
    published: dict[int, torch.Tensor] = {-1: data.new_zeros(())}
    for i in reversed(range(len(blocks))):
        while i - 1 not in published:
            pass
        blocks[i] += published[i - 1]
        published[i] = blocks[i][-1]
    return torch.cat(blocks)
