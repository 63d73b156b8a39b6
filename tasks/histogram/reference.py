"""Keys are counted.  Counts are whole numbers, and there is nothing to tolerate."""

import torch
from task import input_t, output_t

from harness.checker import compare


def generate_input(size: int, bins: int, hot: float, seed: int) -> input_t:
    torch.manual_seed(seed)
    # One draw a key, for drawing is what takes the time: below 0 it is the hottest key, above it tells which other one.
    drawn = torch.rand(size).sub_(hot)
    hottest = torch.randint(bins, (1,), dtype=torch.int32)
    keys = torch.mul(drawn, bins / max(1 - hot, 2**-24)).int().clamp_(max=bins - 1)
    return torch.where(drawn < 0, hottest, keys), bins


def ref_kernel(data: input_t) -> output_t:
    keys, bins = data
    return torch.bincount(keys, minlength=bins).int()


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    return compare(output, ref_kernel(data), rtol=0, atol=0)
