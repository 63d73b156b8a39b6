"""A product of quantised matrices.  Sums of whole numbers are exact in any order, and there is nothing to tolerate.

Terms are at most 255 * 255, so that 33025 of them fit into an int32, and any number of them that we shall see into the
53 bits of a float64, in which products are fast on every device.
"""

import torch
from task import input_t, output_t

from harness.checker import compare


def generate_input(m: int, k: int, n: int, extreme: bool, seed: int) -> input_t:
    torch.manual_seed(seed)
    shapes = (m, k), (k, n), (m,), (n,)
    a, b, zero_a, zero_b = (_numbers(shape, extreme) for shape in shapes)
    return a, b, zero_a, zero_b


def _numbers(shape: tuple[int, ...], extreme: bool) -> torch.Tensor:
    numbers = torch.randint(-128, 128, shape, dtype=torch.int8)
    # Minus or plus: from -128 to -1 become -128, the others 127.
    return (numbers >> 7) ^ 127 if extreme else numbers


def ref_kernel(data: input_t) -> output_t:
    a, b, zero_a, zero_b = (tensor.double() for tensor in data)
    return ((a - zero_a[:, None]) @ (b - zero_b)).int()


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    return compare(output, ref_kernel(data), rtol=0, atol=0)
