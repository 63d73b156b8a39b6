#!POPCORN leaderboard topksampling
"""One key for each logit: its bits as an integer of the same order, and after them the token's number.

No two keys are equal, so any top-k is as good as a stable sort.  They fill eight bytes for each logit of two or four.
"""

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
