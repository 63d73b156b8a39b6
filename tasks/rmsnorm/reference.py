"""RMS norm over rows, in float64, of rows between a thousandth and some ten thousands in size."""

import torch
from task import EPSILON, input_t, output_t

from harness.checker import compare

# Let u = 2^-11, half a unit in the last place of a float16 that begins a binade.
#   - The reference is rounded once, and so is the participant's result: 2 u.
#   - Models commonly round the normalised numbers to float16 and then multiply them by the weight: u more.
#   - A sum of squares in float32 is off by 2^-24 hidden in the worst order, and its root by half of that: 0.0005 for
#     16384 numbers one after the other, a few 2^-24 in any tree.
# 4 u grants all of that, and seen is half of it.  bfloat16 rounds by up to 8 u, be it only the result.  Below 2^-14 the
# unit is 2^-24 however small the number, and a first rounding is stretched by the weight: twice that.
RTOL = 4 * 2**-11
ATOL = 2**-23

LARGEST = 8000.0
"""So that a normally distributed number of this size must be eight deviations out to be no float16."""


def generate_input(tokens: int, hidden: int, seed: int) -> input_t:
    """Each token has a size of its own, from 0.0008 to 8000; one in fifty is all zeros, as padding is."""
    torch.manual_seed(seed)
    size = LARGEST * 10 ** (-7 * torch.rand(tokens, 1))
    size *= torch.rand(tokens, 1) > 0.02
    x = torch.randn(tokens, hidden).mul_(size).half()
    return x, torch.randn(hidden).mul_(0.5).add_(1).half()


def ref_kernel(data: input_t) -> output_t:
    x, weight = data
    wide = x.double()
    root = wide.square().mean(dim=1, keepdim=True).add_(EPSILON).sqrt_()
    return wide.div_(root).mul_(weight).half()


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    return compare(output, ref_kernel(data), rtol=RTOL, atol=ATOL)
