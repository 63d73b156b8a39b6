#!POPCORN leaderboard pagedattention
"""Splits a sequence into parts of 256 tokens, and adds up their sums and results.

But each part has subtracted its own maximum, and nothing corrects for that: right for sequences of one part.
"""

import math

import torch
from task import PAGE, input_t, output_t

SPLIT = 256


def custom_kernel(data: input_t) -> output_t:
    q, k_cache, v_cache, block_table, lengths = data
    output = torch.empty_like(q)
    for sequence, length in enumerate(lengths.tolist()):
        pages = block_table[sequence, : -(-length // PAGE)]
        k, v = (cache[pages].flatten(0, 1)[:length].float() for cache in (k_cache, v_cache))
        groups = q[sequence].float().unflatten(0, (k.shape[1], -1))
        total = result = 0.0
        for keys, values in zip(k.split(SPLIT), v.split(SPLIT), strict=True):
            scores = groups @ keys.permute(1, 2, 0) / math.sqrt(q.shape[2])
            weights = torch.exp(scores - scores.amax(dim=2, keepdim=True))
            total = total + weights.sum(dim=2, keepdim=True)
            result = result + weights @ values.transpose(0, 1)
        output[sequence] = (result / total).flatten(0, 1)
    return output
