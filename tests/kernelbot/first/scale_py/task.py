from typing import TypedDict

import torch

input_t = tuple[torch.Tensor, int]
output_t = torch.Tensor


class TestSpec(TypedDict):
    size: int
    factor: int
    seed: int
