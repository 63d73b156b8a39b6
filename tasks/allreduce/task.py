"""What goes in and what comes out."""

import torch

input_t = tuple[torch.Tensor, int, int]
"""`(x, rank, world_size)`: bfloat16 of shape (tokens, hidden), contiguous; this rank's number; the number of ranks."""

output_t = torch.Tensor
"""The sum of all ranks' x: bfloat16, shape (tokens, hidden)."""
