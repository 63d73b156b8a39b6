#!POPCORN leaderboard attention
"""Guesses a name: torch has attention of this kind, but calls it otherwise, and the file cannot even be imported."""

from task import input_t, output_t
from torch.nn.functional import flash_attention


def custom_kernel(data: input_t) -> output_t:
    q, k, v = data
    return flash_attention(q, k, v, is_causal=True)
