"""What goes in and what comes out."""

import torch

input_t = torch.Tensor
"""`x`: float32, shape (rows, cols), contiguous."""

output_t = torch.Tensor
"""The softmax of every row: float32, shape (rows, cols)."""
