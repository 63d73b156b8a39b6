"""What goes in and what comes out."""

import torch

input_t = torch.Tensor
"""`a`: float32, shape (batch, n, n), contiguous; each matrix is symmetric and positive definite."""

output_t = torch.Tensor
"""The lower triangular factor of every matrix, with zeros above its diagonal: float32, shape (batch, n, n)."""
