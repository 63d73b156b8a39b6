#!POPCORN leaderboard crossentropy
"""The right words' logits are taken first, and the rest happens in one buffer: widen, shift, exp, all in place.

Memory that is touched for the first time costs more than the exponentials.
"""

import torch
from task import IGNORED, input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    logits, labels = data
    is_ignored = labels == IGNORED
    wide = logits.float()
    maximum = wide.amax(dim=1, keepdim=True)
    right = wide.gather(1, labels.masked_fill(is_ignored, 0)[:, None]) - maximum
    sums = wide.sub_(maximum).exp_().sum(dim=1, keepdim=True)
    return (torch.log(sums) - right)[:, 0].masked_fill_(is_ignored, 0.0)
