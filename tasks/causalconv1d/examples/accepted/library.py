#!POPCORN leaderboard causalconv1d
"""PyTorch's own: a grouped convolution that pads both ends, and its SiLU in place."""

import torch
from task import WIDTH, input_t, output_t
from torch.nn.functional import conv1d, silu

torch.backends.cudnn.allow_tf32 = False


def custom_kernel(data: input_t) -> output_t:
    x, weight, bias = data
    channels, length = x.shape[1:]
    full = conv1d(x, weight[:, None], bias, padding=WIDTH - 1, groups=channels)
    return silu(full[:, :, :length])
