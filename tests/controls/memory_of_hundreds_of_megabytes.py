"""Use 400 MB of scratch in each call, and write to all of it; the task allows 1 GiB."""

import torch


def custom_kernel(data):
    values, output, scale = data
    scratch = torch.empty(100_000_000)
    scratch.fill_(1.0)
    scratch[: values.numel()] = values
    return torch.mul(scratch[: values.numel()].sort().values, scale, out=output)
