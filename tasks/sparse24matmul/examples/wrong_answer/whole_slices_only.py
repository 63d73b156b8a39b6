#!POPCORN leaderboard sparse24matmul
"""Takes slices of 32 columns, as `mma.sp` does, and leaves out the columns that fill no whole slice.

Right wherever `k` is a multiple of 32.
"""

import torch
from task import input_t, output_t

SLICE = 32


def custom_kernel(data: input_t) -> output_t:
    x, values, indices = data
    k = x.shape[1] // SLICE * SLICE
    x, values, indices = x[:, :k], values[:, : k // 2], indices[:, : k // 8]
    rows, kept = values.shape
    shifts = torch.arange(0, 8, 2, dtype=torch.uint8, device=x.device)
    index = (indices[:, :, None] >> shifts & 3).view(rows, kept)
    columns = torch.arange(kept, device=x.device) // 2 * 4 + index
    dense = torch.zeros(rows, 2 * kept, device=x.device).scatter_(1, columns, values.float())
    return (x.float() @ dense.T).half()
