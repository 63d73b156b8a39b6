#!POPCORN leaderboard mladecode
"""Multiplies queries and tokens as they come, so that the library rounds the scores to bfloat16, too.

From 16 on, numbers in bfloat16 are 1/8 apart.
"""

import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    q, cache, starts, lengths, latent, scale = data
    output = q.new_empty(*q.shape[:2], latent)
    for sequence, (start, length) in enumerate(zip(starts.tolist(), lengths.tolist(), strict=True)):
        tokens = cache[start : start + length]
        scores = (q[sequence] @ tokens.T).float() * scale
        output[sequence] = torch.softmax(scores, dim=1) @ tokens[:, :latent].float()
    return output
