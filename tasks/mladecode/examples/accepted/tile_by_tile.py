#!POPCORN leaderboard mladecode
"""Goes through each sequence in tiles, with a running maximum, sum and result, all rescaled when the maximum grows.

Weights are rounded to bfloat16 before they are multiplied, as a GPU's tensor cores want them.
"""

import math

import torch
from task import input_t, output_t

TILE = 512


def custom_kernel(data: input_t) -> output_t:
    q, cache, starts, lengths, latent, scale = data
    queries, output = q.float() * scale, q.new_empty(*q.shape[:2], latent)
    for sequence, (start, length) in enumerate(zip(starts.tolist(), lengths.tolist(), strict=True)):
        maximum = queries.new_full((q.shape[1], 1), -math.inf)
        total, result = torch.zeros_like(maximum), queries.new_zeros(q.shape[1], latent)
        for tile in cache[start : start + length].split(TILE):
            tokens = tile.float()
            scores = queries[sequence] @ tokens.T
            larger = torch.maximum(maximum, scores.amax(dim=1, keepdim=True))
            weights, rescale = scores.sub_(larger).exp_(), torch.exp(maximum - larger)
            total.mul_(rescale).add_(weights.sum(dim=1, keepdim=True))
            result.mul_(rescale).addmm_(weights.bfloat16().float(), tokens[:, :latent])
            maximum = larger
        output[sequence] = result / total
    return output
