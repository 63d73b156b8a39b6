"""Rotary embedding, angles and all in float64."""

import torch
from task import BASE, input_t, output_t

from harness.checker import compare

# With u = 2^-11 for float16, and numbers N(0, 1), hardly ever larger than 5:
#   - rounding the result costs u |y|, and the reference's own rounding as much again: rtol = 2 u = 2^-10;
#   - sines and cosines in float32 of an angle that is right to 2^-22 cost 5 * 2^-21 = 0.000002 in all, and so do those
#     that are put together from two parts' sines and cosines.  atol = 2^-12 = 0.00024 grants a hundred times that, and
#     forgives an angle in float32 up to positions of about a thousand, where it is off by 2^-15.
# At a million it is off by up to 2^-5.  Tables of sines and cosines in float16 are off by 2^-12, products with numbers
# of 2 and more by more than atol, and sums of two such that are small themselves show it: two to four times what is
# allowed.  Honest kernels use 0.8 of it, where the last rounding of a number just above a power of two falls the other
# way; more than one such unit apart they cannot be.
RTOL = 2**-10
ATOL = 2**-12


def generate_input(tokens: int, heads: int, dim: int, longest: int, seed: int) -> input_t:
    torch.manual_seed(seed)
    return torch.randn(tokens, heads, dim).half(), torch.randint(longest, (tokens,), dtype=torch.int32)


def ref_kernel(data: input_t) -> output_t:
    x, positions = data
    half = x.shape[2] // 2
    speeds = BASE ** -(torch.arange(half, dtype=torch.float64) / half)
    angles = positions[:, None, None] * speeds
    cos, sin = angles.cos(), angles.sin()
    first, second = x.double().split(half, dim=2)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=2).half()


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    return compare(output, ref_kernel(data), rtol=RTOL, atol=ATOL)
