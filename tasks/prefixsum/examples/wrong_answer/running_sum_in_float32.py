#!POPCORN leaderboard prefixsum
"""One running sum in float32, as NumPy does it: after a million roundings the last digits are gone."""

import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    return torch.from_numpy(data.cpu().numpy().cumsum()).to(data.device)
