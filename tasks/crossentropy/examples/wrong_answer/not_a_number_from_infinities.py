#!POPCORN leaderboard crossentropy
"""The online sum, tile by tile, rescaled when the maximum grows.  Before it has grown at all it is minus infinity.

A first tile of forbidden words keeps it there, and minus infinity from minus infinity is NaN.
"""

import torch
from task import IGNORED, input_t, output_t

TILE = 1024


def custom_kernel(data: input_t) -> output_t:
    logits, labels = data
    maximum = torch.full((len(labels), 1), -torch.inf, device=logits.device)
    total = torch.zeros_like(maximum)
    for tile in logits.float().split(TILE, dim=1):
        larger = torch.maximum(maximum, tile.amax(dim=1, keepdim=True))
        total = total * torch.exp(maximum - larger) + torch.exp(tile - larger).sum(dim=1, keepdim=True)
        maximum = larger
    is_ignored = labels == IGNORED
    right = logits.gather(1, labels.masked_fill(is_ignored, 0)[:, None]).float()
    return (torch.log(total) + maximum - right)[:, 0].masked_fill(is_ignored, 0.0)
