"""A matrix product, computed in float64 so that only the participant's rounding is left to argue about."""

import torch
from task import input_t, output_t

from harness.checker import compare

# Entries are N(0, 1), so an element of the product is a sum of k terms with standard deviation sqrt(k), and so,
# up to a constant, is every partial sum.  With u = 2^-11 for float16:
#   - rounding the result costs u |c|, and the reference's own rounding as much again: rtol = 2 u = 2^-10;
#   - sums in float32 cost about 2^-24 k, nothing beside that;
#   - libraries may split k and round a handful of partial sums to float16 (cuBLAS does, by torch's default): each
#     costs u sqrt(k) or less, and they add up in squares.  atol = 4 u sqrt(k) grants that.
# Honest kernels use a third of that, most of it for the last rounding.  A running sum in float16 rounds each of its
# steps: 256 slices of 16 (k = 4096) miss by a factor of three to four in the worst of some thousand elements.
RTOL = 2**-10
ATOL_PER_SQRT_K = 4 * 2**-11


def generate_input(m: int, k: int, n: int, seed: int) -> input_t:
    torch.manual_seed(seed)
    return torch.randn(m, k).half(), torch.randn(k, n).half()


def ref_kernel(data: input_t) -> output_t:
    a, b = data
    return (a.double() @ b.double()).half()


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    k = data[0].shape[1]
    return compare(output, ref_kernel(data), rtol=RTOL, atol=ATOL_PER_SQRT_K * k**0.5)
