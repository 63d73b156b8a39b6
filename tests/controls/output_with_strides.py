"""Return a column of a flipped and transposed matrix: gaps between the elements, and an offset."""

import torch


def custom_kernel(data):
    values, _, scale = data
    descending = torch.stack([torch.zeros_like(values), values.sort(descending=True).values * scale])
    return descending.flip(1).t().contiguous()[:, 1]
