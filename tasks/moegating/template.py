#!POPCORN leaderboard moegating
# Save this as submissions/moegating/<your login>/submission.py and open a pull request:
# a draft is tested and timed, one that is ready for review is ranked.
# Before that, on your own machine: pullrank test submission.py
"""Right and simple: a mark for each choice in a table of tokens and experts, whose running sums are the places."""

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
