#!POPCORN leaderboard identity
"""Every number of the output looks up where it comes from, as one thread for each would.

The list of places is twice as large as the numbers themselves.
"""

import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    rows, cols = data.shape
    pitch = data.stride(0)
    memory = data.as_strided(((rows - 1) * pitch + cols,), (1,))
    starts = torch.arange(rows, device=data.device) * pitch
    return memory[starts[:, None] + torch.arange(cols, device=data.device)]
