#!POPCORN leaderboard pagedattention
#!PULLRANK needs triton
# Save this as submissions/pagedattention/<your login>/submission.py and open a pull request:
# a draft is tested and timed, one that is ready for review is ranked.
# Before that, on your own machine: pullrank test submission.py
"""Right and simple: one Triton program for each sequence and head of the cache goes through the pages, one by one.

It keeps a running maximum, sum and result for each head of the group.  On a CPU board Triton's interpreter runs it:
correct, but slow.
"""

import math

import torch
import triton
import triton.language as tl
from task import PAGE, input_t, output_t


@triton.jit
def attend(
    q, k_cache, v_cache, block_table, lengths, output, width, kv_heads, group, dim, scale,
    PAGE: tl.constexpr, GROUP: tl.constexpr, DIM: tl.constexpr,
):  # fmt: skip
    sequence, kv_head = tl.program_id(0), tl.program_id(1)
    heads, columns, slots = tl.arange(0, GROUP), tl.arange(0, DIM), tl.arange(0, PAGE)
    is_mine = (heads < group)[:, None] & (columns < dim)[None, :]
    places = ((sequence * kv_heads + kv_head) * group + heads)[:, None] * dim + columns[None, :]
    query = tl.load(q + places, mask=is_mine, other=0.0)
    length = tl.load(lengths + sequence)

    maximum = tl.full((GROUP,), float("-inf"), tl.float32)
    total = tl.zeros((GROUP,), tl.float32)
    result = tl.zeros((GROUP, DIM), tl.float32)
    for first in range(0, length, PAGE):
        page = tl.load(block_table + sequence * width + first // PAGE).to(tl.int64)
        is_filled = first + slots < length
        numbers = ((page * PAGE + slots) * kv_heads + kv_head)[:, None] * dim + columns[None, :]
        mask = is_filled[:, None] & (columns < dim)[None, :]
        k = tl.load(k_cache + numbers, mask=mask, other=0.0)
        v = tl.load(v_cache + numbers, mask=mask, other=0.0)

        scores = tl.where(is_filled[None, :], tl.dot(query, tl.trans(k)) * scale, float("-inf"))
        larger = tl.maximum(maximum, tl.max(scores, axis=1))
        weights, rescale = tl.exp(scores - larger[:, None]), tl.exp(maximum - larger)
        total = total * rescale + tl.sum(weights, axis=1)
        result = tl.dot(weights.to(tl.float16), v, result * rescale[:, None])
        maximum = larger
    tl.store(output + places, (result / total[:, None]).to(tl.float16), mask=is_mine)


def custom_kernel(data: input_t) -> output_t:
    q, k_cache, v_cache, block_table, lengths = data
    (batch, heads, dim), kv_heads = q.shape, k_cache.shape[2]
    group, width, scale = heads // kv_heads, block_table.shape[1], 1 / math.sqrt(dim)
    output = torch.empty_like(q)
    attend[(batch, kv_heads)](
        q, k_cache, v_cache, block_table, lengths, output, width, kv_heads, group, dim, scale,
        PAGE=PAGE, GROUP=max(16, triton.next_power_of_2(group)), DIM=max(16, triton.next_power_of_2(dim)),
    )  # fmt: skip
    return output
