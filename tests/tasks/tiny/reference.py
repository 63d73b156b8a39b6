import torch
from task import input_t, output_t

from harness.checker import compare


def generate_input(size: int, seed: int) -> input_t:
    return torch.randn(size, generator=torch.Generator().manual_seed(seed))


def ref_kernel(data: input_t) -> output_t:
    return data + 1


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    return compare(output, ref_kernel(data), rtol=1e-6, atol=1e-6)
