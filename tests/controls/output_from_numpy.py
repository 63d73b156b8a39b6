"""Compute in numpy, with strides and its own scalars, and return the array as a torch tensor."""

import numpy as np
import torch

factor = np.float64(0.5)


def custom_kernel(data):
    values, _, scale = data
    doubled = np.repeat(values.numpy(), 2)[::-1]
    ordered = np.sort(doubled)[::2] * np.float32(scale / factor * factor)
    return torch.from_numpy(np.ascontiguousarray(ordered))
