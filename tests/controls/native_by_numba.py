"""Compile with numba if it is installed, and use numpy if not."""

import numpy as np
import torch

try:
    from numba import njit
except ImportError:

    def sort_and_scale(values, scale):
        return np.sort(values) * scale

else:

    @njit(cache=True)
    def sort_and_scale(values, scale):
        ordered = np.sort(values)
        for i in range(ordered.size):
            ordered[i] *= scale
        return ordered


def custom_kernel(data):
    values, _, scale = data
    return torch.from_numpy(sort_and_scale(values.numpy(), np.float32(scale)))
