"""Return a column of a matrix that was made by flipping and transposing: gaps between the elements, an offset before."""

import torch


def custom_kernel(data):
    values, _, scale = data
    descending = torch.stack([torch.zeros_like(values), values.sort(descending=True).values * scale])
    return descending.flip(1).t().contiguous()[:, 1]
