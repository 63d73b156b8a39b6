#!POPCORN leaderboard groupedgemm
#!PULLRANK needs triton
# Save this as submissions/groupedgemm/<your login>/submission.py and open a pull request:
# a draft is tested and timed, one that is ready for review is ranked.
# Before that, on your own machine: pullrank test submission.py
"""Right and simple: one Triton program for each expert and each tile of columns, which goes through the expert's rows.

The host never sees the offsets, and programs of idle experts end at once; those of popular ones take long.  On a CPU
board Triton's interpreter runs it: slow, and correct only because the factors are widened, as `tl.dot` of bfloat16 is
wrong there.
"""

import triton
import triton.language as tl
from task import input_t, output_t

TILE = 32


@triton.jit
def multiply(x, weights, offsets, y, k, n, TILE: tl.constexpr):
    expert = tl.program_id(0)
    end = tl.load(offsets + expert + 1)
    matrix = weights + expert.to(tl.int64) * k * n
    cols = (tl.program_id(1) * TILE + tl.arange(0, TILE))[None, :]
    for start in range(tl.load(offsets + expert), end, TILE):
        rows = (start + tl.arange(0, TILE))[:, None].to(tl.int64)
        total = tl.zeros((TILE, TILE), dtype=tl.float32)
        for first in range(0, k, TILE):
            inner = first + tl.arange(0, TILE)
            left = tl.load(x + rows * k + inner[None, :], mask=(rows < end) & (inner[None, :] < k), other=0.0)
            right = tl.load(matrix + inner[:, None] * n + cols, mask=(inner[:, None] < k) & (cols < n), other=0.0)
            total = tl.dot(left.to(tl.float32), right.to(tl.float32), total)
        tl.store(y + rows * n + cols, total.to(tl.bfloat16), mask=(rows < end) & (cols < n))


def custom_kernel(data: input_t) -> output_t:
    x, weights, offsets = data
    experts, k, n = weights.shape
    y = x.new_empty(x.shape[0], n)
    multiply[experts, triton.cdiv(n, TILE)](x, weights, offsets, y, k, n, TILE=TILE)
    return y
