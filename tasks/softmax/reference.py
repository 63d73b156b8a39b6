"""Softmax over rows, in float64, of inputs that no shortcut survives."""

import torch
from task import input_t, output_t

from harness.checker import compare

# Let u = 2^-24.  In float32, and subtracting the row's maximum:
#   - x - max is rounded once: off by u |x - max|, and so is the exponential, relatively.  Results above 1e-30 have
#     |x - max| < 70 + log(cols): 5e-6;
#   - fast exponentials are off by a few units in the last place, CUDA's __expf by 2 + 1.2 |x|: 1e-5;
#   - a sum of positive numbers is off by u cols in the worst order and by u sqrt(cols) typically: 1.5e-5 for 65536
#     in a row, one after the other; less in any sensible order;
#   - one division: u.
# Together 3e-5, so that 5e-5 is enough for any honest float32, while float16 (5e-4) and bfloat16 (4e-3) fail.
# Relative errors mean nothing where exp underflows (1e-38 in float32).  ATOL lies far below 1 / cols: no output is
# right by being small.
RTOL = 5e-5
ATOL = 1e-30


def generate_input(rows: int, cols: int, seed: int) -> input_t:
    """Each row has a size of its own, from 0.1 to 1000, and a place of its own up to some thousands from zero."""
    torch.manual_seed(seed)
    size = 10 ** (4 * torch.rand(rows, 1) - 1)
    place = size * torch.randn(rows, 1)
    return torch.randn(rows, cols).mul_(size).add_(place)


def ref_kernel(data: input_t) -> output_t:
    return torch.softmax(data.double(), dim=1).float()


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    return compare(output, ref_kernel(data), rtol=RTOL, atol=ATOL)
