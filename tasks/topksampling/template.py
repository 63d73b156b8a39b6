#!POPCORN leaderboard topksampling
# Save this as submissions/topksampling/<your login>/submission.py and open a pull request:
# a draft is tested and timed, one that is ready for review is ranked.
# Before that, on your own machine: pullrank test submission.py
"""Right and simple: one key for each logit, with the token's number after its bits, so that no two are equal."""

import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    logits, k, temperature, u, largest = data
    bits = logits.float().view(torch.int32)
    ascending = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    keys = (ascending.long() << 32) - torch.arange(logits.shape[1], device=logits.device)
    tokens = torch.topk(keys, largest, dim=1).indices
    scaled = logits.gather(1, tokens).float() / temperature[:, None]
    is_beyond = torch.arange(largest, device=logits.device) >= k[:, None]
    shares = torch.softmax(scaled.masked_fill(is_beyond, -torch.inf), dim=1)
    place = (shares.cumsum(dim=1) <= u[:, None]).sum(dim=1, keepdim=True)
    return tokens.gather(1, place)[:, 0].int()
