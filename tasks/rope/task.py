"""What goes in and what comes out."""

import torch

BASE = 10000.0
"""How many times slower, about, the last pair of numbers turns than the first."""

input_t = tuple[torch.Tensor, torch.Tensor]
"""`(x, positions)`: float16 of shape (tokens, heads, dim) and int32 of shape (tokens,), contiguous."""

output_t = torch.Tensor
"""`x`, its pairs of numbers turned: float16, shape (tokens, heads, dim)."""
