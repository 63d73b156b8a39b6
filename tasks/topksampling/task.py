"""What goes in and what comes out."""

import torch

input_t = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, int]
"""`(logits, k, temperature, u, largest)`: float32 or bfloat16 of shape (batch, vocab); int32, float32 and float32 of
shape (batch,); all contiguous; and the upper limit of `k`."""

output_t = torch.Tensor
"""The token of every row: int32, shape (batch,)."""
