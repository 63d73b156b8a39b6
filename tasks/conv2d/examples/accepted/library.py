#!POPCORN leaderboard conv2d
"""One library call, in the precision that the device is fast in; the patches never exist.

A GPU's tensor cores take float16 as it is.  Most CPUs have no arithmetic for it, so there everything is widened.
"""

import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    x, weight, stride, padding = data
    if not x.is_cuda:
        x, weight = x.float(), weight.float()
    return torch.nn.functional.conv2d(x, weight, stride=stride, padding=padding).half()
