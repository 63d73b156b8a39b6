"""What goes in and what comes out."""

import torch

input_t = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
"""`(x, values, indices)`: float16 of shapes (tokens, k) and (rows, k / 2), uint8 of shape (rows, k / 8), all
contiguous."""

output_t = torch.Tensor
"""`x @ w.T`, where `w` is the matrix that `values` and `indices` describe: float16, shape (tokens, rows)."""
