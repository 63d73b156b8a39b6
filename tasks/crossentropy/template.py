#!POPCORN leaderboard crossentropy
# Save this as submissions/crossentropy/<your login>/submission.py and open a pull request:
# a draft is tested and timed, one that is ready for review is ranked.
# Before that, on your own machine: pullrank test submission.py
"""Right and simple: the surprise of every word, and the right word's out of it."""

import torch
from task import IGNORED, input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    logits, labels = data
    wide = logits.float()
    shifted = wide - wide.amax(dim=1, keepdim=True)
    sums = torch.exp(shifted).sum(dim=1, keepdim=True)
    surprise = torch.log(sums) - shifted
    is_ignored = labels == IGNORED
    losses = surprise.gather(1, labels.masked_fill(is_ignored, 0)[:, None])[:, 0]
    return losses.masked_fill(is_ignored, 0.0)
