"""What goes in and what comes out."""

import torch

EPSILON = 0.00001
"""Added to the mean of the squares."""

input_t = tuple[torch.Tensor, torch.Tensor]
"""`(x, weight)`: float16, of shapes (tokens, hidden) and (hidden,), contiguous."""

output_t = torch.Tensor
"""The normalised and weighted tokens: float16, shape (tokens, hidden)."""
