#!POPCORN leaderboard crossentropy
#!POPCORN gpus A100 H100 H200 B200
#!PULLRANK needs triton
"""The textbook's formula, which torch.compile makes into one or two kernels."""

import torch
from task import IGNORED, input_t, output_t


@torch.compile
def cross_entropy(data: input_t) -> output_t:
    logits, labels = data
    wide = logits.float()
    shifted = wide - wide.amax(dim=1, keepdim=True)
    sums = torch.exp(shifted).sum(dim=1, keepdim=True)
    surprise = torch.log(sums) - shifted
    is_ignored = labels == IGNORED
    losses = surprise.gather(1, labels.masked_fill(is_ignored, 0)[:, None])[:, 0]
    return losses.masked_fill(is_ignored, 0.0)


def custom_kernel(data: input_t) -> output_t:
    return cross_entropy(data)
