"""Grouped-query attention over a paged cache, in float64, one sequence at a time."""

import math

import torch
from task import PAGE, input_t, output_t

from harness.checker import compare

# With u = 2^-11 for float16, values N(0, 1), and weights p that sum to 1:
#   - rounding the result costs u |y|, and the reference's own rounding as much again: rtol = 2 u = 2^-10;
#   - tensor cores want the weights in float16: each is off by u p at most, the result by u * sum of p |v|.  That is
#     below u for a mean of many, and at most 4 u where only one or two large values count, and cancel: atol = 4 u;
#   - partial results of a split sequence that are kept in float16 are off by u of themselves: no more than that;
#   - a score of 60 is off by some 2^-18 in float32, and so, relatively, is its exponential: negligible.
# Seen: a third of what is allowed in float32, half of it with the weights in float16, and with partial results in
# float16, too.  Scores in float16 are off by up to 2^-6 when they are above 32: several times what is allowed.
# bfloat16 rounds values, weights and results by 8 u: the result alone is off by twice what is allowed.
# A result has the size of sqrt(sum of p p): 1 where one token decides, and for the smallest queries 0.06 with 8192
# tokens, or 0.015 with 131072, seven times atol.  So zeros never pass, and neither do results that leave out one
# token in a hundred.
RTOL = 2**-10
ATOL = 4 * 2**-11

GARBAGE = (1.0, 60000.0, math.inf, math.nan)
"""An unused slot holds normally distributed numbers times one of these."""


def generate_input(batch: int, heads: int, kv_heads: int, dim: int, shortest: int, longest: int, seed: int) -> input_t:
    """Sequences get pages in random order; slots without a token, in their last pages and elsewhere, hold garbage."""
    torch.manual_seed(seed)
    lengths, rooms = _lengths(batch, shortest, longest)
    pages, width = sum(-(-room // PAGE) for room in rooms), -(-longest // PAGE)

    # A sequence's entries beyond its last page name any page, as if left over from a longer sequence.
    block_table = torch.randint(pages, (batch, width))
    is_filled = (torch.arange(width * PAGE) < lengths[:, None]).view(batch, width, PAGE)
    is_used = is_filled.any(dim=2)
    block_table[is_used] = torch.randperm(pages)[: is_used.sum()]

    scale = torch.tensor(GARBAGE)[torch.randint(len(GARBAGE), (pages, PAGE))]
    scale[block_table[is_used]] = scale[block_table[is_used]].masked_fill(is_filled[is_used], 1)
    k_cache, v_cache = torch.randn(2, pages, PAGE, kv_heads, dim).mul_(scale[:, :, None, None]).half()

    # Sizes from 2, where hundreds of tokens count, to 10, where the best one or two decide: values that one head could
    # do without count for another head of the same group.
    q = torch.randn(batch, heads, dim) * 2 * 5 ** torch.rand(batch, heads, 1)
    return q.half(), k_cache, v_cache, block_table.int(), lengths.int()


def _lengths(batch: int, shortest: int, longest: int) -> tuple[torch.Tensor, list[int]]:
    """Lengths from `shortest` to `longest`, evenly spread and shuffled; and, in ascending order, how long each can be.

    The sum hardly depends on the seed, and so the time does not either.  If `batch` lengths are possible, each comes
    once.
    """
    choices = longest - shortest + 1
    lengths = shortest + (choices * torch.arange(batch) + torch.randint(choices, (batch,))) // batch
    return lengths[torch.randperm(batch)], [shortest + choices * (place + 1) // batch for place in range(batch)]


def ref_kernel(data: input_t) -> output_t:
    q, k_cache, v_cache, block_table, lengths = data
    rows = []
    for query, pages, length in zip(q, block_table, lengths.tolist(), strict=True):
        used = pages[: -(-length // PAGE)].long()
        k, v = (cache[used].flatten(0, 1)[:length] for cache in (k_cache, v_cache))
        rows.append(_attend(query.double(), k.double(), v.double()))
    return torch.stack(rows).half()


def _attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """The results of one sequence; `q` is (heads, dim), `k` and `v` are (length, kv_heads, dim)."""
    groups = q.unflatten(0, (k.shape[1], -1))
    weights = torch.softmax(groups @ k.permute(1, 2, 0) / math.sqrt(q.shape[1]), dim=2)
    return (weights @ v.transpose(0, 1)).flatten(0, 1)


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    return compare(output, ref_kernel(data), rtol=RTOL, atol=ATOL)
