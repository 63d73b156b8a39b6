#!POPCORN leaderboard crossentropy
"""Takes every label for an index.  -100 is one, too: the hundredth word from the end.

Right as long as no token is to be ignored.
"""

import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    logits, labels = data
    surprise = -torch.log_softmax(logits.float(), dim=1)
    return surprise[torch.arange(len(labels), device=labels.device), labels]
