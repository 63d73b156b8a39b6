#!POPCORN leaderboard sort
"""NumPy's sort on a CPU: in place, without places, and in vector instructions where the machine has them.

Needs NumPy, as PyTorch's CPU tensors do to become arrays.  A GPU keeps PyTorch's, which is a radix sort there.
"""

import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    if data.is_cuda:
        return torch.sort(data).values
    data.numpy().sort()
    return data
