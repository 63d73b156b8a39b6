"""What goes in and what comes out."""

import torch

BLOCK = 128
"""The side of a block of `b` that shares a scale, and the length of a block of a row of `a`."""

input_t = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]
"""`(a, b, a_scale, b_scale)`, contiguous.

`a` and `b` are float8_e4m3fn, of shapes (m, k) and (n, k).  Their scales are float32, of shapes (m, ceil(k / BLOCK))
and (ceil(n / BLOCK), ceil(k / BLOCK)).
"""

output_t = torch.Tensor
"""The product of the scaled `a` and the transposed scaled `b`: bfloat16, shape (m, n)."""
