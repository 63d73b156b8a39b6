"""Multi-head latent attention, absorbed, in float64, one sequence at a time."""

import math

import torch
from task import input_t, output_t

from harness.checker import compare

# With u = 2^-8 for bfloat16, values N(0, 1), and weights p that sum to 1:
#   - rounding the result costs u |y|, and the reference's own rounding as much again: rtol = 2 u = 2^-7;
#   - tensor cores want the weights in bfloat16: each is off by u p at most, the result by u * sum of p |c|.  That is
#     below u for a mean of many, and at most 4 u where only one or two large values count, and cancel: atol = 4 u;
#   - partial results of a split sequence that are kept in bfloat16 are off by u of themselves: no more than that;
#   - a score of 60 is off by some 2^-18 in float32, and so, relatively, is its exponential: negligible.
# Seen: a third of what is allowed in float32, half of it with the weights in bfloat16, and with partial results in
# bfloat16, too.  Scores in bfloat16 are off by up to 2^-4 when they are above 16: several times what is allowed, and so
# are values in float8.
# A result has the size of sqrt(sum of p p): 1 where one token decides, and for the smallest queries 0.15 with 8192
# tokens, or 0.06 with 131072, four times atol.  So zeros never pass, and neither do results that leave out one
# token in a hundred.
RTOL = 2**-7
ATOL = 4 * 2**-8

GARBAGE = (1.0, 1e30, math.inf, math.nan)
"""A row that no sequence uses holds normally distributed numbers times one of these."""


def generate_input(
    batch: int, heads: int, latent: int, rope: int, nope: int, shortest: int, longest: int, seed: int
) -> input_t:
    """Sequences have room to grow, one after the other in random order; what is not in use holds garbage."""
    torch.manual_seed(seed)
    width, scale = latent + rope, 1 / math.sqrt(nope + rope)
    lengths, rooms = _lengths(batch, shortest, longest)
    starts = rooms.cumsum(dim=0) - rooms

    place = torch.arange(int(rooms.sum()))
    sequence = torch.searchsorted(starts, place, right=True) - 1
    is_used = place < (starts + lengths)[sequence]
    size = torch.tensor(GARBAGE)[torch.randint(len(GARBAGE), place.shape)].masked_fill_(is_used, 1)
    cache = torch.randn(len(place), width).mul_(size[:, None]).bfloat16()

    # Scores spread by 3, where dozens of tokens count, to 10, where the best one or two decide.
    spread = 3 * (10 / 3) ** torch.rand(batch, heads, 1)
    q = torch.randn(batch, heads, width).mul_(spread / (scale * math.sqrt(width))).bfloat16()
    order = torch.randperm(batch)
    return q, cache, starts[order].int(), lengths[order].int(), latent, scale


def _lengths(batch: int, shortest: int, longest: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Lengths from `shortest` to `longest`, evenly spread and shuffled; and how long each can be.

    The sum hardly depends on the seed, and so the time does not either.  If `batch` lengths are possible, each comes
    once.
    """
    choices, place = longest - shortest + 1, torch.randperm(batch)
    lengths = shortest + (choices * place + torch.randint(choices, (batch,))) // batch
    return lengths, shortest + choices * (place + 1) // batch


def ref_kernel(data: input_t) -> output_t:
    q, cache, starts, lengths, latent, scale = data
    rows = []
    for query, start, length in zip(q.double(), starts.tolist(), lengths.tolist(), strict=True):
        tokens = cache[start : start + length].double()
        rows.append(torch.softmax(query @ tokens.T * scale, dim=1) @ tokens[:, :latent])
    return torch.stack(rows).bfloat16()


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    return compare(output, ref_kernel(data), rtol=RTOL, atol=ATOL)
