#!POPCORN leaderboard sparse24matmul
#!PULLRANK needs triton
# Save this as submissions/sparse24matmul/<your login>/submission.py and open a pull request:
# a draft is tested and timed, one that is ready for review is ranked.
# Before that, on your own machine: pullrank test submission.py
"""Right and simple: one Triton program for each tile of the result, which decompresses the weights as it goes.

For each number of the dense tile, it reads its group's two indices and two values, zeros included.  On a CPU board
Triton's interpreter runs it: correct, but slow.
"""

import triton
import triton.language as tl
from task import input_t, output_t

TILE = 32


@triton.jit
def multiply(x, values, indices, y, tokens, rows, k, TILE: tl.constexpr):
    token = (tl.program_id(0) * TILE + tl.arange(0, TILE))[:, None]
    row = (tl.program_id(1) * TILE + tl.arange(0, TILE))[None, :]
    total = tl.zeros((TILE, TILE), dtype=tl.float32)
    for start in range(0, k, TILE):
        across = start + tl.arange(0, TILE)[None, :]
        left = tl.load(x + token * k + across, mask=(token < tokens) & (across < k), other=0.0)
        column = start + tl.arange(0, TILE)[:, None]
        is_inside = (column < k) & (row < rows)
        byte = tl.load(indices + row * (k // 8) + column // 8, mask=is_inside, other=0).to(tl.int32)
        pair = byte >> column % 8 // 4 * 4
        place = values + row * (k // 2) + column // 4 * 2
        first = tl.load(place, mask=is_inside & ((pair & 3) == column % 4), other=0.0)
        second = tl.load(place + 1, mask=is_inside & ((pair >> 2 & 3) == column % 4), other=0.0)
        total = tl.dot(left, first + second, total)
    tl.store(y + token * rows + row, total.to(tl.float16), mask=(token < tokens) & (row < rows))


def custom_kernel(data: input_t) -> output_t:
    x, values, indices = data
    (tokens, k), rows = x.shape, values.shape[0]
    y = x.new_empty(tokens, rows)
    grid = triton.cdiv(tokens, TILE), triton.cdiv(rows, TILE)
    multiply[grid](x, values, indices, y, tokens, rows, k, TILE=TILE)
    return y
