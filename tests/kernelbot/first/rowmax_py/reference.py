import torch
from task import input_t, output_t


def generate_input(shape: tuple[int, int], seed: int) -> input_t:
    torch.manual_seed(seed)
    return torch.rand(*shape).cuda()


def ref_kernel(data: input_t) -> output_t:
    found = data.max(dim=1)
    return found.values, found.indices


def check_implementation(data: input_t, output: output_t) -> str:
    for mine, right in zip(output, ref_kernel(data), strict=True):
        if mine.shape != right.shape or mine.dtype != right.dtype:
            return "another shape or dtype"
        if not torch.equal(mine, right):
            return "not the largest"
    return ""
