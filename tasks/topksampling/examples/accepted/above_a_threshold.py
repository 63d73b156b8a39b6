#!POPCORN leaderboard topksampling
"""PyTorch's top-k only finds the smallest logit that counts.  All tokens that reach it are candidates, in order.

A stable sort of the candidates keeps that order among equals.  There are few, so the vocabulary is read three times
and never written.  Sums are not divided by the total; the random number is multiplied by it.
"""

import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    logits, k, temperature, u, largest = data
    threshold = torch.topk(logits, largest, dim=1).values[:, -1:]
    rows, columns = (logits >= threshold).nonzero(as_tuple=True)
    values, order = torch.sort(logits[rows, columns].float(), descending=True, stable=True)
    by_row = torch.argsort(rows[order], stable=True)
    counts = torch.bincount(rows, minlength=len(logits))
    ranks = torch.arange(len(rows), device=logits.device) - (counts.cumsum(0) - counts).repeat_interleave(counts)
    kept = by_row[ranks < largest].view(-1, largest)
    scaled = (values[kept] - values[kept[:, :1]]) / temperature[:, None]
    is_beyond = torch.arange(largest, device=logits.device) >= k[:, None]
    sums = torch.exp(scaled).masked_fill(is_beyond, 0.0).cumsum(dim=1)
    place = (sums <= u[:, None] * sums[:, -1:]).sum(dim=1, keepdim=True)
    return columns[order[kept.gather(1, place)]][:, 0].int()
