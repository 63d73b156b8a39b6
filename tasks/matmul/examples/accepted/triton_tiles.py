#!POPCORN leaderboard matmul
#!PULLRANK needs triton
"""One Triton program for each tile of the result; `tl.dot` multiplies in float16 and adds up in float32.

On a CPU board Triton's interpreter plays the programs one after the other: there, large tiles make them few.
"""

import triton
import triton.language as tl
from task import input_t, output_t


@triton.jit
def multiply(a, b, c, m, n, k, TILE_M: tl.constexpr, TILE_N: tl.constexpr, TILE_K: tl.constexpr):
    rows = (tl.program_id(0) * TILE_M + tl.arange(0, TILE_M))[:, None]
    cols = (tl.program_id(1) * TILE_N + tl.arange(0, TILE_N))[None, :]
    total = tl.zeros((TILE_M, TILE_N), dtype=tl.float32)
    for start in range(0, k, TILE_K):
        inner = start + tl.arange(0, TILE_K)
        left = tl.load(a + rows * k + inner[None, :], mask=(rows < m) & (inner[None, :] < k), other=0.0)
        right = tl.load(b + inner[:, None] * n + cols, mask=(inner[:, None] < k) & (cols < n), other=0.0)
        total = tl.dot(left, right, total)
    tl.store(c + rows * n + cols, total.to(tl.float16), mask=(rows < m) & (cols < n))


def custom_kernel(data: input_t) -> output_t:
    a, b = data
    (m, k), n = a.shape, b.shape[1]
    c = a.new_empty(m, n)
    tile_m, tile_n, tile_k = (64, 64, 64) if a.is_cuda else (tile_over(m), tile_over(n), tile_over(k))
    grid = triton.cdiv(m, tile_m), triton.cdiv(n, tile_n)
    multiply[grid](a, b, c, m, n, k, TILE_M=tile_m, TILE_N=tile_n, TILE_K=tile_k)
    return c


def tile_over(size: int) -> int:
    return min(max(16, triton.next_power_of_2(size)), 256)
