#!POPCORN leaderboard rmsnorm
#!PULLRANK needs triton
# Save this as submissions/rmsnorm/<your login>/submission.py and open a pull request:
# a draft is tested and timed, one that is ready for review is ranked.
# Before that, on your own machine: pullrank test submission.py
"""Right and simple: one Triton program for each token, whose row is read once and stays in registers.

On a CPU board Triton's interpreter plays it: right, and slow.
"""

import torch
import triton
import triton.language as tl
from task import EPSILON, input_t, output_t


@triton.jit
def normalise(x, weight, y, hidden, epsilon, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    is_inside = columns < hidden
    start = tl.program_id(0).to(tl.int64) * hidden
    row = tl.load(x + start + columns, mask=is_inside, other=0.0).to(tl.float32)
    root = tl.sqrt(tl.sum(row * row, axis=0) / hidden + epsilon)
    scale = tl.load(weight + columns, mask=is_inside, other=0.0).to(tl.float32)
    tl.store(y + start + columns, (row / root * scale).to(tl.float16), mask=is_inside)


def custom_kernel(data: input_t) -> output_t:
    x, weight = data
    tokens, hidden = x.shape
    y = torch.empty_like(x)
    normalise[(tokens,)](x, weight, y, hidden, EPSILON, BLOCK=triton.next_power_of_2(hidden))
    return y
