"""Keep one buffer for each shape and return views of it, call after call.

Mode: benchmark
"""

import torch

buffers = {}


def custom_kernel(data):
    values, _, scale = data
    buffer = buffers.get(values.shape)
    if buffer is None:
        buffer = buffers[values.shape] = torch.empty(values.numel() + 16)
    return torch.mul(values.sort().values, scale, out=buffer[8:-8])
