#!POPCORN leaderboard crossentropy
"""The library's own, as it is for training: the mean over all tokens that count, a single number without a shape."""

import torch
from task import IGNORED, input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    logits, labels = data
    return torch.nn.functional.cross_entropy(logits.float(), labels, ignore_index=IGNORED)
