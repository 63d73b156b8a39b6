"""Compute in numpy, strided and with its own scalars, and return what torch makes of the array."""

import numpy as np
import torch

factor = np.float64(0.5)


def custom_kernel(data):
    values, _, scale = data
    doubled = np.repeat(values.numpy(), 2)[::-1]
    ordered = np.sort(doubled)[::2] * np.float32(scale / factor * factor)
    return torch.from_numpy(np.ascontiguousarray(ordered))
