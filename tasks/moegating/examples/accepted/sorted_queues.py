#!POPCORN leaderboard moegating
"""Softmax over the chosen logits alone; and a stable sort by expert, which lines all queues up, one after the other.

What is sorted are k numbers a token, in 8 bits if they fit, instead of a table of all experts.
"""

import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    logits, k = data
    size = logits.shape[1]
    largest, experts = torch.topk(logits, k, dim=1)
    narrow = experts.view(-1).to(torch.uint8 if size <= 256 else torch.int32)
    order = torch.argsort(narrow, stable=True)
    loads = torch.bincount(narrow, minlength=size)
    begins = torch.repeat_interleave(loads.cumsum(dim=0) - loads, loads, output_size=order.numel())
    places = torch.empty(order.numel(), dtype=torch.int32, device=logits.device)
    places[order] = (torch.arange(order.numel(), device=logits.device) - begins).int()
    return {
        "experts": experts.int(),
        "weights": torch.softmax(largest, dim=1),
        "places": places.view(experts.shape),
        "loads": loads.int(),
    }
