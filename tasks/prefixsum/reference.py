"""An inclusive prefix sum, in float64."""

import torch
from task import input_t, output_t

from harness.checker import compare

# Float32 and not integers, because the order of the additions is half of the task, and integers forgive any.
#
# Terms are N(0, 1), so sums are of size sqrt(size) or less, and each rounding of one costs up to u sqrt(size) with
# u = 2^-24, half of that typically.  Roundings are independent and add up in squares:
#   - a tree, or blocks that are scanned in blocks, rounds each sum a few dozen times: seen are 1 to 12 u sqrt(size);
#   - a chain of carries from block to block (the single pass with look-back) rounds as often as there are blocks:
#     0.28 u sqrt(size) sqrt(blocks), and three times that at worst.  With blocks of 1024 that is 0.027 u size;
#   - one running sum in float32 rounds `size` times: 0.28 u size, ten times that much.
# The first two are granted.  Seen for a million terms: a fifth of it for trees and blocks, three to twelve times it
# for one running sum.
# It stays below 0.3 for 134 million terms, which are of size 1: none can be forgotten or counted twice.
ATOL_PER_SQRT_SIZE = 32 * 2**-24
ATOL_PER_SIZE = 2**-24 / 32


def generate_input(size: int, seed: int) -> input_t:
    torch.manual_seed(seed)
    return torch.randn(size)


def ref_kernel(data: input_t) -> output_t:
    return data.double().cumsum(dim=0).float()


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    size = data.numel()
    return compare(output, ref_kernel(data), rtol=0, atol=ATOL_PER_SQRT_SIZE * size**0.5 + ATOL_PER_SIZE * size)
