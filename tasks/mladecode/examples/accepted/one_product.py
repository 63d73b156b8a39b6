#!POPCORN leaderboard mladecode
"""Takes latent and rotated numbers as one vector: one product with queries that are already scaled makes the scores.

The first part of the same rows, widened once, are the values.
"""

import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    q, cache, starts, lengths, latent, scale = data
    queries, output = q.float() * scale, q.new_empty(*q.shape[:2], latent)
    for sequence, (start, length) in enumerate(zip(starts.tolist(), lengths.tolist(), strict=True)):
        tokens = cache[start : start + length].float()
        output[sequence] = torch.softmax(queries[sequence] @ tokens.T, dim=1) @ tokens[:, :latent]
    return output
