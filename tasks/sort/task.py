"""What goes in and what comes out."""

import torch

input_t = torch.Tensor
"""`x`: float32, shape (size,), contiguous; with infinities, zeros of both signs, subnormal numbers and NaNs."""

output_t = torch.Tensor
"""The numbers of `x` in ascending order, NaNs last: float32, shape (size,)."""
