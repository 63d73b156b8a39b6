"""What goes in and what comes out."""

import torch

input_t = tuple[torch.Tensor, torch.Tensor]
"""`(a, b)`: float16, of shapes (m, k) and (k, n), contiguous."""

output_t = torch.Tensor
"""`a @ b`: float16, shape (m, n)."""
