"""What goes in and what comes out."""

import torch

input_t = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]
"""`(a, b, zero_a, zero_b)`: int8, of shapes (m, k), (k, n), (m,) and (n,), contiguous."""

output_t = torch.Tensor
"""`(a - zero_a) @ (b - zero_b)`, zeros taken by row and by column: int32, shape (m, n)."""
