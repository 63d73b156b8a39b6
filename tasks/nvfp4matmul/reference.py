"""A product of NVFP4 matrices, in float64: four-bit numbers, a float8 scale for each 16, a float32 scale for all."""

import torch
from task import GROUP, NUMBERS, input_t, output_t

from harness.checker import compare

# Let g be the product of the two global scales.  All codes are equally frequent: the mean of their squares is 8.6.  The
# scales of groups multiply that by 1.9 in either matrix, besides a factor whose inverse the other matrix has.  So an
# element of y / g is a sum of k terms, with standard deviation 16 sqrt(k), and so, up to a constant, is every partial
# sum.  With u = 2^-8 for bfloat16:
#   - rounding the result costs u |y|, and the reference's own rounding as much again: rtol = 2 u = 2^-7;
#   - a number of e2m1 has two significant bits, its scale has four: their product is exact in bfloat16 and in float16,
#     where it lies between 2^-10 and 2112.  Sums in float32 are off by about 2^-24 k, far less than that;
#   - libraries may split k and round a handful of partial sums to bfloat16: each costs u 16 sqrt(k) or less, and they
#     add up in squares.  atol = 4 u 16 sqrt(k) = sqrt(k) / 4 grants that, times g.
# A running sum in bfloat16 rounds each of its steps: 64 tiles of 128 (k = 8192) miss by a factor of two in the worst of
# 1500 elements.  Scaled numbers in float8 are off by 9 u 16 sqrt(k), typically.
RTOL = 2 * 2**-8
ATOL_PER_G_SQRT_K = 1 / 4


def generate_input(m: int, k: int, n: int, seed: int) -> input_t:
    """Where scales of `a` are large, those of `b` are small, so that even groups with subnormal scales count."""
    torch.manual_seed(seed)
    tilt = 14 * torch.rand(k // GROUP) - 7
    a_scale, b_scale = _scales(m, tilt), _scales(n, -tilt)
    a, b = (torch.randint(256, (rows, k // 2), dtype=torch.uint8) for rows in (m, n))
    a_global, b_global = (10 ** (-4 * torch.rand(1)) for _ in range(2))
    return a, b, a_scale, b_scale, a_global, b_global


def _scales(rows: int, tilt: torch.Tensor) -> torch.Tensor:
    """From 2^-8.5 to 2^8.5, rounded: float8_e4m3fn begins at 2^-9, is subnormal below 2^-6, and ends at 448."""
    return (2 ** (3 * torch.rand(rows, len(tilt)) - 1.5 + tilt)).to(torch.float8_e4m3fn)


def ref_kernel(data: input_t) -> output_t:
    a, b, a_scale, b_scale, a_global, b_global = data
    total = _scaled(a, a_scale) @ _scaled(b, b_scale).mT
    return total.mul_(a_global.double() * b_global.double()).bfloat16()


def _scaled(codes: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    numbers = torch.tensor(NUMBERS, dtype=torch.float64)
    pairs = torch.stack((codes & 15, codes >> 4), dim=2)
    return numbers[pairs.int()].view(*scale.shape, GROUP).mul_(scale.double()[:, :, None]).flatten(1)


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    k = 2 * data[0].shape[1]
    g = (data[4] * data[5]).item()
    return compare(output, ref_kernel(data), rtol=RTOL, atol=ATOL_PER_G_SQRT_K * g * k**0.5)
