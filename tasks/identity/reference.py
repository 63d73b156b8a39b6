"""A window onto a larger matrix becomes a matrix of its own.

That the result must be contiguous is what makes this a task: else the input itself would be an answer.
"""

import torch
from task import input_t, output_t

from harness.checker import compare


def generate_input(rows: int, cols: int, pitch: int, seed: int) -> input_t:
    torch.manual_seed(seed)
    # Two numbers from the bits of one draw.
    bits = torch.empty(rows * pitch // 2 + 1, dtype=torch.int64).random_(-(2**63), None)
    return bits.view(torch.float32)[: rows * pitch].view(rows, pitch)[:, :cols]


def ref_kernel(data: input_t) -> output_t:
    return data.clone(memory_format=torch.contiguous_format)


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    """Bits are compared, as integers: to floats, all NaNs are alike, and 0.0 equals -0.0."""
    expected = ref_kernel(data)
    same, message = compare(output, expected, rtol=0, atol=0)
    if not same:
        return False, message
    if not output.is_contiguous():
        return False, f"output has the strides {output.stride()}; its rows must lie one after the other"
    same, message = compare(output.view(torch.int32), expected.view(torch.int32), rtol=0, atol=0)
    return same, message and f"{message} (bits, as integers)"
