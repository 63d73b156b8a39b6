"""What goes in and what comes out."""

import torch

input_t = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
"""`(x, weights, offsets)`: bfloat16 of shapes (tokens, k) and (experts, k, n), int32 of shape (experts + 1,), all
contiguous."""

output_t = torch.Tensor
"""Each token times its expert's weights: bfloat16, shape (tokens, n)."""
