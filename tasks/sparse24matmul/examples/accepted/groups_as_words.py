#!POPCORN leaderboard sparse24matmul
"""A group of four float16 is a word of 64 bits: shift each value to its place, and join the two of a group by `or`.

A shift by 16 times the index is a product with a power of 65536, which a table holds for the four indices of each byte.
Nothing is scattered.  A GPU multiplies float16 directly; a CPU is faster in float32.
"""

import torch
from task import input_t, output_t

SHIFTS = torch.arange(0, 8, 2)
POWERS = 1 << 16 * (torch.arange(256)[:, None] >> SHIFTS & 3)


def custom_kernel(data: input_t) -> output_t:
    x, values, indices = data
    words = values.view(torch.uint16).long()
    words *= POWERS.to(x.device).index_select(0, indices.view(-1).int()).view(values.shape)
    dense = (words[:, 0::2] | words[:, 1::2]).view(torch.float16)
    return x @ dense.T if x.is_cuda else (x.float() @ dense.float().T).half()
