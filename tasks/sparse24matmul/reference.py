"""A product with a 2:4 sparse matrix: decompressed number by number, and multiplied in float64."""

import torch
from task import input_t, output_t

from harness.checker import compare

# Entries are N(0, 1), so an element of the result is a sum of k / 2 terms with standard deviation sqrt(k / 2).  With
# u = 2^-11 for float16:
#   - rounding the result costs u |y|, and the reference's own rounding as much again: rtol = 2 u = 2^-10;
#   - sums in float32 are off by about 2^-24 k, which is negligible;
#   - libraries may split k and round a handful of partial sums to float16 (cuBLAS does, by torch's default): each
#     rounding is 0.4 u of its partial sum, typically, and they add up in squares: 0.4 u sqrt(k / 2) for any number of
#     splits that are then added in float32.  atol = 4 u sqrt(k / 2) grants that to the worst of a billion elements.
# Seen: half of what is allowed with eight splits, most of it for the last rounding.
# A running sum in float16 rounds after each step: s steps are off by 0.3 u sqrt(k / 2 * s).  k = 8192 in slices of 32
# columns, as `mma.sp` takes them, has s = 256, and 4.8 u sqrt(k / 2) as its standard deviation, more than is allowed:
# one element in six is wrong, and the worst of a thousand misses by a factor of three to four.  In slices of 256 some
# elements are still wrong.  With factors in bfloat16 the worst element misses by a factor of three, with weights in
# float8 (e4m3) by thirty, for every k.
RTOL = 2**-10
ATOL_PER_SQRT_KEPT = 4 * 2**-11

PAIRS = [0b0100, 0b1000, 0b1100, 0b1001, 0b1101, 0b1110]
"""The indices of a group's two values: the first in the lower two bits, the second, which is larger, above it."""


def generate_input(tokens: int, rows: int, k: int, seed: int) -> input_t:
    torch.manual_seed(seed)
    x = torch.randn(tokens, k).half()
    values = torch.randn(rows, k // 2).half()
    groups = torch.tensor(PAIRS, dtype=torch.uint8)[torch.randint(len(PAIRS), (rows, k // 4))]
    return x, values, groups[:, 0::2] | groups[:, 1::2] << 4


def ref_kernel(data: input_t) -> output_t:
    x, values, indices = data
    return (x.double() @ _dense(values.double(), indices).T).half()


def _dense(values: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    """The matrix with all its zeros."""
    rows, kept = values.shape
    index = torch.stack([indices >> shift & 3 for shift in (0, 2, 4, 6)], dim=2).view(rows, kept)
    group = torch.arange(kept) // 2
    return values.new_zeros(rows, 2 * kept).scatter_(1, 4 * group + index, values)


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    kept = data[1].shape[1]
    return compare(output, ref_kernel(data), rtol=RTOL, atol=ATOL_PER_SQRT_KEPT * kept**0.5)
