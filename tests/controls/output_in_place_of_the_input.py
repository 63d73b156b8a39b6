"""Sort and scale where the input lies, and return it: the output aliases the input.

Mode: benchmark
"""

import torch


def custom_kernel(data):
    values, _, scale = data
    torch.sort(values, out=(values, torch.empty(0, dtype=torch.long)))
    return values.mul_(scale)
