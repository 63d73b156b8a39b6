#!POPCORN leaderboard mladecode
"""Divides by the square root of the width of the queries that it gets, as attention does, and ignores `scale`.

Absorbed queries are wider than the original ones, so the scores come out too small.
"""

import math

import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    q, cache, starts, lengths, latent, _ = data
    output = q.new_empty(*q.shape[:2], latent)
    for sequence, (start, length) in enumerate(zip(starts.tolist(), lengths.tolist(), strict=True)):
        tokens = cache[start : start + length].float()
        scores = q[sequence].float() @ tokens.T / math.sqrt(q.shape[2])
        output[sequence] = torch.softmax(scores, dim=1) @ tokens[:, :latent]
    return output
