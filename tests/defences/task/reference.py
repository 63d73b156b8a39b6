import torch
from task import input_t, output_t

from harness.checker import compare


def generate_input(size: int, seed: int) -> input_t:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(size, generator=generator), torch.empty(4 * size)


def ref_kernel(data: input_t) -> output_t:
    values, output = data
    output.zero_()[: values.numel()] = values
    return output


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    return compare(output, ref_kernel(data), rtol=0, atol=0)
