#!POPCORN leaderboard topksampling
"""Divides the logits in place.  Those in bfloat16 are rounded again, and some that differed are now equal.

Right for float32.
"""

import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    logits, k, temperature, u, largest = data
    logits.div_(temperature[:, None])
    values, tokens = torch.sort(logits.float(), dim=1, descending=True, stable=True)
    is_beyond = torch.arange(largest, device=logits.device) >= k[:, None]
    shares = torch.softmax(values[:, :largest].masked_fill(is_beyond, -torch.inf), dim=1)
    place = (shares.cumsum(dim=1) <= u[:, None]).sum(dim=1, keepdim=True)
    return tokens.gather(1, place)[:, 0].int()
