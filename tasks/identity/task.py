"""What goes in and what comes out."""

import torch

input_t = torch.Tensor
"""`x`: float32, shape (rows, cols), strides (pitch, 1) with pitch >= cols."""

output_t = torch.Tensor
"""The same numbers: float32, shape (rows, cols), contiguous."""
