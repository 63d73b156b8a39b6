import torch
from torch import nn


class Cache(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.register_buffer("kept", torch.zeros(size))


def generate_input(size: int, seed: int):
    torch.manual_seed(seed)
    cache = Cache(size).to("cuda")
    return cache, torch.randn(size, device="cuda")


def ref_kernel(data):
    cache, x = data
    return cache.kept + x


def check_implementation(data, output):
    return torch.equal(ref_kernel(data), output), ""
