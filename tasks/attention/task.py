"""What goes in and what comes out."""

import torch

input_t = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
"""`(q, k, v)`: float16, all of shape (batch, heads, seq, dim), contiguous."""

output_t = torch.Tensor
"""For each position, the weighted mean of the values up to it: float16, shape (batch, heads, seq, dim)."""
