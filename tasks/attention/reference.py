"""Causal attention, in float64, some rows of scores at a time."""

import math

import torch
from task import input_t, output_t

from harness.checker import compare

# With u = 2^-11 for float16, values N(0, 1), and weights p that sum to 1:
#   - rounding the result costs u |y|, and the reference's own rounding as much again: rtol = 2 u = 2^-10;
#   - tensor cores want the weights in float16: each is off by u p at most, the result by u * sum of p |v|.  That is
#     below u for a mean of many, and at most 4 u where one or two large values are all there is and cancel: atol = 4 u;
#   - a score of 200 is off by some 2^-16 in float32, and so, relatively, is its exponential: nothing beside that.
# Seen: a third of what is allowed in float32, half of it with the weights in float16.  Scores in float16 are off by up
# to 2^-4 when they are above 128, and results by several hundredths.  bfloat16 rounds values, weights and results by
# 8 u: the result alone is off by twice what is allowed.
RTOL = 2**-10
ATOL = 4 * 2**-11

ROWS = 256
"""So many rows of scores at a time: not all of them fit into a GPU's memory, and half of them are never needed."""


def generate_input(batch: int, heads: int, seq: int, dim: int, spread: float, seed: int) -> input_t:
    torch.manual_seed(seed)
    q, k, v = torch.randn(3, batch, heads, seq, dim)
    return q.mul_(spread).half(), k.half(), v.half()


def ref_kernel(data: input_t) -> output_t:
    q, k, v = (tensor.double() for tensor in data)
    return torch.cat([_attend(q, k, v, start) for start in range(0, q.shape[2], ROWS)], dim=2).half()


def _attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, start: int) -> torch.Tensor:
    """The results of `ROWS` rows from `start` on."""
    end = min(start + ROWS, q.shape[2])
    scores = q[:, :, start:end] @ k[:, :, :end].mT / math.sqrt(q.shape[3])
    is_future = torch.ones(end - start, end, dtype=torch.bool).triu(start + 1)
    return scores.masked_fill_(is_future, -math.inf).softmax(dim=3) @ v[:, :, :end]


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    return compare(output, ref_kernel(data), rtol=RTOL, atol=ATOL)
