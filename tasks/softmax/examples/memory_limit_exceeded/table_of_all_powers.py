#!POPCORN leaderboard softmax
"""Never computes an exponential twice: tabulates exp for each of the 2^32 floats there are, once and for all.

The list of them alone has 16 GiB, on a board that grants four.
"""

import torch
from task import input_t, output_t

PART = 1 << 26


def custom_kernel(data: input_t) -> output_t:
    parts = range(-(2**31), 2**31, PART)
    floats = [torch.arange(i, i + PART, dtype=torch.int32, device=data.device).view(torch.float32) for i in parts]
    table = torch.cat(floats).exp_()
    powers = table[(data - data.amax(dim=1, keepdim=True)).view(torch.int32).long() + 2**31]
    return powers / powers.sum(dim=1, keepdim=True)
