"""What goes in and what comes out."""

import torch

input_t = tuple[torch.Tensor, torch.Tensor, int, int]
"""`(x, weight, stride, padding)`: float16, of shapes (n, c, h, w) and (k, c, r, r), contiguous; and two numbers."""

output_t = torch.Tensor
"""The filtered images: float16, shape (n, k, (h + 2 padding - r) // stride + 1, (w + 2 padding - r) // stride + 1)."""
