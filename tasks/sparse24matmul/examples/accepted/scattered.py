#!POPCORN leaderboard sparse24matmul
"""Unpacks all indices, puts every value where it belongs in a matrix of zeros, and multiplies in float32."""

import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    x, values, indices = data
    rows, kept = values.shape
    shifts = torch.arange(0, 8, 2, dtype=torch.uint8, device=x.device)
    index = (indices[:, :, None] >> shifts & 3).view(rows, kept)
    columns = torch.arange(kept, device=x.device) // 2 * 4 + index
    dense = torch.zeros(rows, 2 * kept, device=x.device).scatter_(1, columns, values.float())
    return (x.float() @ dense.T).half()
