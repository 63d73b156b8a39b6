#!POPCORN leaderboard pagedattention
"""Collects only as many pages at a time as stay in a core's cache, in float32, until they have been used.

A running maximum, sum and result of each head are rescaled when the maximum grows.
"""

import math

import torch
from task import PAGE, input_t, output_t

NUMBERS = 1 << 17
"""The size of a part: this many numbers of keys, and as many of values; half a MiB each in float32."""


def custom_kernel(data: input_t) -> output_t:
    q, k_cache, v_cache, block_table, lengths = data
    kv_heads, dim = k_cache.shape[2:]
    groups = q.float().view(q.shape[0], kv_heads, -1, dim) / math.sqrt(dim)
    caches = [cache.view(cache.shape[0], -1) for cache in (k_cache, v_cache)]
    step = max(1, NUMBERS // caches[0].shape[1])
    output = torch.empty_like(groups)
    for sequence, length in enumerate(lengths.tolist()):
        pages = block_table[sequence].long()
        maximum = total = result = None
        for first in range(0, -(-length // PAGE), step):
            end = min(length, (first + step) * PAGE)
            some = pages[first : -(-end // PAGE)]
            k, v = (cache.index_select(0, some).view(-1, kv_heads, dim) for cache in caches)
            k, v = (part[: end - first * PAGE].float() for part in (k, v))
            scores = groups[sequence] @ k.permute(1, 2, 0)
            larger = scores.amax(dim=2, keepdim=True)
            if maximum is not None:
                larger = torch.maximum(larger, maximum)
            weights = scores.sub_(larger).exp_()
            part, sums = weights @ v.transpose(0, 1), weights.sum(dim=2, keepdim=True)
            if maximum is None:
                total, result = sums, part
            else:
                rescale = torch.exp(maximum - larger)
                total, result = total * rescale + sums, result * rescale + part
            maximum = larger
        output[sequence] = result / total
    return output.view(q.shape).half()
