#!POPCORN leaderboard groupedgemm
"""Multiplies slices of 16 in float32, as a tensor core takes them, but adds them up in bfloat16.

Harmless with a few slices; over a k of 4096 the rounding errors add up.
"""

from task import input_t, output_t

SLICE = 16


def custom_kernel(data: input_t) -> output_t:
    x, weights, offsets = data
    y = x.new_zeros(x.shape[0], weights.shape[2])
    start = 0
    for expert, end in enumerate(offsets[1:].tolist()):
        for inner in range(0, x.shape[1] if start < end else 0, SLICE):
            part = slice(inner, inner + SLICE)
            y[start:end] += (x[start:end, part].float() @ weights[expert, part].float()).bfloat16()
        start = end
    return y
