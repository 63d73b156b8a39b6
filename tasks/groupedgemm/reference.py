"""One matrix product for each expert, in float64, of groups whose sizes are drawn from the seed."""

import torch
from task import input_t, output_t

from harness.checker import compare

# Entries are N(0, 1), so an element of the result is a sum of k terms with standard deviation sqrt(k), and a sum of the
# first j of them has sqrt(j).  With u = 2^-8 for bfloat16:
#   - rounding the result costs u |y|, and the reference's own rounding as much again: rtol = 2 u = 2^-7;
#   - sums in float32 are off by about 2^-24 k, which is negligible;
#   - libraries may split k and round a handful of partial sums to bfloat16 (cuBLAS does, by torch's default): each
#     rounding is 0.4 u of its partial sum, typically, and they add up in squares: 0.4 u sqrt(k) for any number of
#     splits that are then added in float32.  atol = 4 u sqrt(k) grants that to the worst of a billion elements.
# Seen: half of what is allowed with eight splits, most of it for the last rounding.
# A running sum in bfloat16 rounds after each step: s steps are off by 0.4 u sqrt(k / s) sqrt(1 + 2 + ... + s), that is
# 0.3 u sqrt(k s).  k = 4096 in slices of 16 has s = 256, and 4.8 u sqrt(k) as its standard deviation, more than is
# allowed: one element in six is wrong, and the worst of two thousand misses by a factor of three.  In slices of 128
# some elements are still wrong.  float8 (e4m3) rounds a factor by 0.026 of itself, typically.  If only the weights are
# rounded, the result is off by 6.6 u sqrt(k): four elements in ten are wrong, for every k.
RTOL = 2**-7
ATOL_PER_SQRT_K = 4 * 2**-8


def generate_input(tokens: int, experts: int, idle: int, k: int, n: int, seed: int) -> input_t:
    torch.manual_seed(seed)
    x = torch.randn(tokens, k).bfloat16()
    weights = torch.randn(experts, k, n).bfloat16()
    return x, weights, _offsets(tokens, experts, idle)


def _offsets(tokens: int, experts: int, idle: int) -> torch.Tensor:
    """Each busy expert gets one token; the other tokens choose among them, and strongly prefer some."""
    busy = torch.randperm(experts)[idle:]
    choices = busy
    if others := tokens - busy.numel():
        popularity = torch.rand(busy.numel()).pow_(4).add_(1e-3)
        choices = torch.cat([busy, busy[torch.multinomial(popularity, others, replacement=True)]])
    offsets = torch.zeros(experts + 1, dtype=torch.int32)
    offsets[1:] = torch.bincount(choices, minlength=experts).cumsum(dim=0)
    return offsets


def ref_kernel(data: input_t) -> output_t:
    x, weights, offsets = data
    bounds = offsets.tolist()
    groups = zip(weights, bounds, bounds[1:], strict=False)
    return torch.cat([(x[start:end].double() @ matrix.double()).bfloat16() for matrix, start, end in groups])


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    k = data[0].shape[1]
    return compare(output, ref_kernel(data), rtol=RTOL, atol=ATOL_PER_SQRT_K * k**0.5)
