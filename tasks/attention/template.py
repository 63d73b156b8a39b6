#!POPCORN leaderboard attention
# Save this as submissions/attention/<your login>/submission.py and open a pull request:
# a draft is tested and timed, one that is ready for review is ranked.
# Before that, on your own machine: pullrank test submission.py
"""Right and simple: all scores, also those of the future, which are then crossed out."""

import math

import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    q, k, v = (tensor.float() for tensor in data)
    scores = q @ k.mT / math.sqrt(q.shape[3])
    is_future = torch.ones(scores.shape[2:], dtype=torch.bool, device=q.device).triu(1)
    weights = torch.softmax(scores.masked_fill(is_future, -math.inf), dim=3)
    return (weights @ v).half()
