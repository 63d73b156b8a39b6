#!POPCORN leaderboard attention
"""Multiplies and adds in float32, but writes the scores down in float16 in between, to save half of their memory.

Beyond 128 they lie 1/8 apart.  Right for scores of ordinary size.
"""

import math

import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    q, k, v = (tensor.float() for tensor in data)
    scores = (q @ k.mT / math.sqrt(q.shape[3])).half()
    is_future = torch.ones(scores.shape[2:], dtype=torch.bool, device=q.device).triu(1)
    return (torch.softmax(scores.masked_fill(is_future, -math.inf).float(), dim=3) @ v).half()
