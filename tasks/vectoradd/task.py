"""What goes in and what comes out."""

import torch

input_t = tuple[torch.Tensor, torch.Tensor]
"""`(a, b)`: float16, both of shape (size, size), contiguous."""

output_t = torch.Tensor
"""`a + b`: float16, shape (size, size)."""
