"""Sort and scale in place, and return the input: the output aliases it.

Mode: benchmark
"""

import torch


def custom_kernel(data):
    values, _, scale = data
    torch.sort(values, out=(values, torch.empty(0, dtype=torch.long)))
    return values.mul_(scale)
