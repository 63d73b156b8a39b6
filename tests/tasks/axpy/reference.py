import torch
from task import input_t, output_t

from harness.checker import compare


def generate_input(size: int, seed: int) -> input_t:
    torch.manual_seed(seed)
    return torch.randn(1).item(), torch.randn(size), torch.randn(size)


def ref_kernel(data: input_t) -> output_t:
    a, x, y = data
    return (a * x.double() + y.double()).float()


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    # The scalar, the product and the sum are rounded by 2^-24 of their values.
    return compare(output, ref_kernel(data), rtol=2**-21, atol=2**-20)
