"""Numbers are sorted, which moves them and changes none: there is nothing to tolerate."""

import numpy as np
import torch
from task import input_t, output_t

from harness.checker import compare

SPECIAL = (0x7F800000, -0x800000, 0, -(2**31), 1, -(2**31) + 1, 0x7FC00000, -0x400000)
"""As bits, each with either sign: infinity, zero, the smallest subnormal number, NaN."""

SPECIAL_SHARE = 0.01


def generate_input(size: int, distinct: int, seed: int) -> input_t:
    torch.manual_seed(seed)
    numbers = torch.randn(distinct)[torch.randint(distinct, (size,))] if distinct else torch.randn(size)
    special = torch.tensor(SPECIAL, dtype=torch.int32).view(torch.float32)
    which = torch.randint(round(len(SPECIAL) / SPECIAL_SHARE), (size,))
    return torch.where(which < len(SPECIAL), special[which.clamp(max=len(SPECIAL) - 1)], numbers)


def ref_kernel(data: input_t) -> output_t:
    # On a CPU, NumPy's is many times as fast, and every call of every benchmark is checked.
    return torch.sort(data).values if data.is_cuda else torch.from_numpy(np.sort(data.numpy()))


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    return compare(output, ref_kernel(data), rtol=0, atol=0)
