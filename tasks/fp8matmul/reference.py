"""A product of float8 matrices with a scale for each block, in float64."""

import torch
from task import BLOCK, input_t, output_t

from harness.checker import compare

# Scaled numbers are N(0, 1), so an element of the product is a sum of k terms with standard deviation sqrt(k), and so,
# up to a constant, is every partial sum.  With u = 2^-8 for bfloat16:
#   - rounding the result costs u |y|, and the reference's own rounding as much again: rtol = 2 u = 2^-7;
#   - sums in float32 are off by about 2^-24 k, which is negligible;
#   - Hopper's tensor cores keep some 14 bits of a sum of float8 products.  Simulated, with a new sum for every 128 of
#     them: off by 0.03 u sqrt(k), typically, and by 0.5 u sqrt(k) at most;
#   - scaled numbers in bfloat16: off by 0.6 u sqrt(k), typically.  Eight times that never happens, even with 30 million
#     elements a call: atol = 5 u sqrt(k), or sqrt(k) / 50.
# A running sum in bfloat16 rounds each of its steps: 64 blocks of 128 (k = 8192) miss by a factor of 1.3 to 2 in the
# worst of 1500 elements.  Numbers that are rounded to float8 again are off by 9 u sqrt(k), typically.
RTOL = 2 * 2**-8
ATOL_PER_SQRT_K = 1 / 50

LARGEST = 448.0
"""The largest number of float8_e4m3fn.  Its smallest is 2^-9, and below 2^-6 it is subnormal."""


def generate_input(m: int, k: int, n: int, seed: int) -> input_t:
    torch.manual_seed(seed)
    a, a_scale = _quantised(m, k, 1)
    b, b_scale = _quantised(n, k, BLOCK)
    return a, b, a_scale, b_scale


def _quantised(rows: int, k: int, height: int) -> tuple[torch.Tensor, torch.Tensor]:
    """N(0, 1) over scales from 2^-7, where the largest numbers are cut off, to 2^8, where nearly all are subnormal."""
    scale = 2 ** (15 * torch.rand(-(-rows // height), -(-k // BLOCK)) - 7)
    numbers = torch.randn(rows, k).div_(_spread(scale, rows, k, height))
    return numbers.clamp_(-LARGEST, LARGEST).to(torch.float8_e4m3fn), scale


def _spread(scale: torch.Tensor, rows: int, k: int, height: int) -> torch.Tensor:
    """Each element's scale, where a block has `height` rows."""
    return scale.repeat_interleave(height, dim=0)[:rows].repeat_interleave(BLOCK, dim=1)[:, :k]


def ref_kernel(data: input_t) -> output_t:
    a, b, a_scale, b_scale = data
    left = a.double().mul_(_spread(a_scale, *a.shape, 1))
    right = b.double().mul_(_spread(b_scale, *b.shape, BLOCK))
    return (left @ right.mT).bfloat16()


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    k = data[0].shape[1]
    return compare(output, ref_kernel(data), rtol=RTOL, atol=ATOL_PER_SQRT_K * k**0.5)
