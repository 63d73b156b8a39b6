#!POPCORN leaderboard topksampling
"""Takes the softmax over the whole vocabulary and does not divide by the share of the best k.

Their sums end below 1, so tokens far down the list get what belongs to the first.
"""

import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    logits, k, temperature, u, _largest = data
    values, tokens = torch.sort(logits.float(), dim=1, descending=True, stable=True)
    sums = torch.softmax(values / temperature[:, None], dim=1).cumsum(dim=1)
    place = (sums <= u[:, None]).sum(dim=1)
    return tokens.gather(1, torch.minimum(place, k - 1)[:, None])[:, 0].int()
