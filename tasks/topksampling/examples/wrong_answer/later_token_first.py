#!POPCORN leaderboard topksampling
"""Sorts in ascending order and reverses the result: among equal logits, the higher index comes first.

Right for rows without equal logits among the best.
"""

import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    logits, k, temperature, u, largest = data
    values, tokens = (part.flip(1)[:, :largest] for part in torch.sort(logits.float(), dim=1, stable=True))
    is_beyond = torch.arange(largest, device=logits.device) >= k[:, None]
    shares = torch.softmax((values / temperature[:, None]).masked_fill(is_beyond, -torch.inf), dim=1)
    place = (shares.cumsum(dim=1) <= u[:, None]).sum(dim=1, keepdim=True)
    return tokens.gather(1, place)[:, 0].int()
