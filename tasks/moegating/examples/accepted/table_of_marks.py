#!POPCORN leaderboard moegating
"""Softmax over all experts, the best k of them, their shares; and a mark for each choice in a table of all of them.

The marks' running sums down the columns are the places.  Most of the table is zeros, of 64 bits each.
"""

import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    logits, k = data
    shares = torch.softmax(logits, dim=1)
    weights, experts = torch.topk(shares, k, dim=1)
    marks = torch.nn.functional.one_hot(experts, logits.shape[1]).sum(dim=1)
    earlier = marks.cumsum(dim=0) - marks
    return {
        "experts": experts.int(),
        "weights": weights / weights.sum(dim=1, keepdim=True),
        "places": earlier.gather(1, experts).int(),
        "loads": marks.sum(dim=0).int(),
    }
