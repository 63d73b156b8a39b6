"""Work in shared memory and in a mapped file, and return a tensor from there."""

import tempfile

import torch


def custom_kernel(data):
    values, _, scale = data
    with tempfile.NamedTemporaryFile() as file:
        mapped = torch.from_file(file.name, shared=True, size=values.numel())
    mapped.copy_(values)
    return torch.mul(mapped.sort().values, scale).share_memory_()
