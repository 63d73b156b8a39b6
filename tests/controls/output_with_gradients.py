"""Compute under autograd, use the gradient, and return a tensor that still requires one."""

import torch


def custom_kernel(data):
    values, _, scale = data
    values.requires_grad_()
    weights = torch.arange(values.numel(), dtype=torch.float32)
    (values.sort().values * weights).sum().backward()
    ranks = values.grad.long()  # the weight of each value is its rank
    ordered = torch.empty_like(values)
    ordered[ranks] = values * scale
    assert ordered.requires_grad
    return ordered
