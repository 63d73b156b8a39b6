"""What goes in and what comes out."""

import torch

GROUP = 16
"""The length of a group: how many numbers of a row share a scale."""

NUMBERS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0)
"""What the codes from 0 to 15 mean in e2m1.  The highest of the four bits is the sign."""

input_t = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]
"""`(a, b, a_scale, b_scale, a_global, b_global)`, contiguous.

`a` and `b` are uint8, of shapes (m, k / 2) and (n, k / 2): two codes in a byte, the first in its low four bits.  Their
scales are float8_e4m3fn, of shapes (m, k / GROUP) and (n, k / GROUP).  The global ones are float32, of shape (1,).
"""

output_t = torch.Tensor
"""The product of the scaled `a` and the transposed scaled `b`: bfloat16, shape (m, n)."""
