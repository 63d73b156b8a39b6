#!POPCORN leaderboard crossentropy
"""PyTorch's own, which keeps the logarithms of all shares in float32 and picks one of each row."""

from task import IGNORED, input_t, output_t
from torch.nn.functional import cross_entropy


def custom_kernel(data: input_t) -> output_t:
    logits, labels = data
    return cross_entropy(logits.float(), labels, ignore_index=IGNORED, reduction="none")
