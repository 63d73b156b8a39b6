#!POPCORN leaderboard sparse24matmul
"""Reads two bytes of indices as one number of 16 bits, as the tensor cores want them.

A row has k / 8 of those bytes, so k has to be a multiple of 16.  The task promises only a multiple of 8.
"""

import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    x, values, indices = data
    rows, kept = values.shape
    pairs = indices.view(torch.int16).int()
    shifts = torch.arange(0, 16, 2, device=x.device)
    index = (pairs[:, :, None] >> shifts & 3).view(rows, kept)
    columns = torch.arange(kept, device=x.device) // 2 * 4 + index
    dense = torch.zeros(rows, 2 * kept, device=x.device).scatter_(1, columns, values.float())
    return (x.float() @ dense.T).half()
