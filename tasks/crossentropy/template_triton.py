#!POPCORN leaderboard crossentropy
#!PULLRANK needs triton
# Save this as submissions/crossentropy/<your login>/submission.py and open a pull request:
# a draft is tested and timed, one that is ready for review is ranked.
# Before that, on your own machine: pullrank test submission.py
"""Right and simple: one Triton program for each token, which goes through its row twice, block by block.

First the maximum, then the sum of what is left beside it.  On a CPU board Triton's interpreter plays it: right, and
slow.
"""

import torch
import triton
import triton.language as tl
from task import IGNORED, input_t, output_t

BLOCK = 4096


@triton.jit
def surprise(logits, labels, losses, vocab, IGNORED: tl.constexpr, BLOCK: tl.constexpr):
    token = tl.program_id(0).to(tl.int64)
    row = logits + token * vocab
    largest = tl.full((BLOCK,), float("-inf"), tl.float32)
    for start in range(0, vocab, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        largest = tl.maximum(largest, tl.load(row + columns, mask=columns < vocab, other=float("-inf")).to(tl.float32))
    maximum = tl.max(largest, axis=0)
    sums = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, vocab, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        block = tl.load(row + columns, mask=columns < vocab, other=float("-inf")).to(tl.float32)
        sums += tl.exp(block - maximum)
    label = tl.load(labels + token)
    right = tl.load(row + label, mask=label != IGNORED, other=0.0).to(tl.float32)
    loss = tl.log(tl.sum(sums, axis=0)) - (right - maximum)
    tl.store(losses + token, tl.where(label == IGNORED, 0.0, loss))


def custom_kernel(data: input_t) -> output_t:
    logits, labels = data
    tokens, vocab = logits.shape
    losses = torch.empty(tokens, dtype=torch.float32, device=logits.device)
    surprise[(tokens,)](logits, labels, losses, vocab, IGNORED=IGNORED, BLOCK=BLOCK)
    return losses
