#!POPCORN leaderboard crossentropy
"""PyTorch's own, on the logits as they come: it computes in float32, but hands the losses back in bfloat16.

Two to three digits of each are right.
"""

import torch
from task import IGNORED, input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    logits, labels = data
    return torch.nn.functional.cross_entropy(logits, labels, ignore_index=IGNORED, reduction="none").float()
