"""A convolution (a correlation, to a mathematician: filters are not turned round), computed in float64."""

import torch
from task import input_t, output_t

from harness.checker import compare

# Entries are N(0, 1), so an element is a sum of up to c r r terms with standard deviation sqrt(c r r), or less at the
# border, and so, up to a constant, is every partial sum.  With u = 2^-11 for float16:
#   - rounding the result costs u |y|, and the reference's own rounding as much again: rtol = 2 u = 2^-10;
#   - sums in float32 cost about 2^-24 c r r, nothing beside that;
#   - libraries may split the sum and round a handful of partial sums to float16: each costs u sqrt(c r r) or less, and
#     they add up in squares.  atol = 8 u sqrt(c r r) grants that.
# Products of two float16 are exact in float32, and so are float16 in TF32.  Transforms that trade products for sums
# (Winograd's, with tiles of 2 or 4) are as good in float32, and too coarse in float16.  Seen: a third of what is
# allowed in float32, two thirds with eight partial sums in float16; four times it with a running sum in float16 over
# 1024 channels, and two to three times it in bfloat16.
RTOL = 2**-10
ATOL_PER_SQRT_TERMS = 8 * 2**-11


def generate_input(n: int, c: int, h: int, w: int, k: int, r: int, stride: int, padding: int, seed: int) -> input_t:
    torch.manual_seed(seed)
    return torch.randn(n, c, h, w).half(), torch.randn(k, c, r, r).half(), stride, padding


def ref_kernel(data: input_t) -> output_t:
    x, weight, stride, padding = data
    return torch.nn.functional.conv2d(x.double(), weight.double(), stride=stride, padding=padding).half()


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    terms = data[1][0].numel()
    return compare(output, ref_kernel(data), rtol=RTOL, atol=ATOL_PER_SQRT_TERMS * terms**0.5)
