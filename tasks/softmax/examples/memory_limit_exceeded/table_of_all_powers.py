#!POPCORN leaderboard softmax
"""Never computes an exponential twice: first tabulates exp for each of the 2^32 floats, 64 million at a time.

The table has 16 GiB, on a board that grants two.
"""

import torch
from task import input_t, output_t

PART = 1 << 26
TABLE: list[torch.Tensor] = []


def custom_kernel(data: input_t) -> output_t:
    for first in range(-(2**31), 2**31, PART):
        bits = torch.arange(first, first + PART, dtype=torch.int32, device=data.device)
        TABLE.append(bits.view(torch.float32).exp_())
    place = (data - data.amax(dim=1, keepdim=True)).view(torch.int32).long() + 2**31
    powers = torch.cat(TABLE)[place]
    return powers / powers.sum(dim=1, keepdim=True)
