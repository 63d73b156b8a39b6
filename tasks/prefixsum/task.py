"""What goes in and what comes out."""

import torch

input_t = torch.Tensor
"""`x`: float32, shape (size,), contiguous."""

output_t = torch.Tensor
"""All sums of `x` from its start: float32, shape (size,)."""
