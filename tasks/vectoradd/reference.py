"""Two matrices are added.  Rounding is the only thing that can differ, and hardly that."""

import numpy as np
import torch
from task import input_t, output_t

from harness.checker import compare

# IEEE 754 rounds a sum once, and an add in float32 rounded to float16 gives the very same bits (24 bits of
# significand are at least 2 * 11 + 2), so that every sane kernel is exact.  One unit in the last place is granted
# to those that round otherwise: at most 2^-10 of a normal number, and 2^-24, the smallest subnormal, below.
# bfloat16 is off by up to 2^-8, and a kernel that flushes subnormals to zero by up to 2^-14.
RTOL = 2**-10
ATOL = 2**-24

_BELOW_TWO = 0xBFFF_BFFF_BFFF_BFFF - 2**64
"""The bits of four float16 numbers without the highest bit of each exponent."""


def generate_input(size: int, scale: float, seed: int) -> input_t:
    count = size * size
    # Four numbers from the bits of one draw, of every magnitude below two.
    a, b = (draw.bitwise_and_(_BELOW_TWO).view(torch.float16)[:count] for draw in _draw(2, count // 4 + 1, seed))
    if scale != 1:
        a, b = a.mul_(scale), b.mul_(scale)
    return a.view(size, size), b.view(size, size)


def _draw(times: int, count: int, seed: int) -> list[torch.Tensor]:
    """Draw 64-bit integers.  On a CPU, NumPy takes less than half of the time that torch takes."""
    if torch.empty(0).device.type == "cpu":  # until torch 2.8, `get_default_device` ignores `with torch.device(…)`
        generator = np.random.SFC64(seed)
        return [torch.from_numpy(generator.random_raw(count).view(np.int64)) for _ in range(times)]
    torch.manual_seed(seed)
    return [torch.empty(count, dtype=torch.int64).random_(-(2**63), None) for _ in range(times)]


def ref_kernel(data: input_t) -> output_t:
    a, b = data
    return a + b


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    return compare(output, ref_kernel(data), rtol=RTOL, atol=ATOL)
