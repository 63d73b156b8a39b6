"""What goes in and what comes out."""

import torch

IGNORED = -100
"""The label of tokens whose loss is 0."""

input_t = tuple[torch.Tensor, torch.Tensor]
"""`(logits, labels)`: bfloat16 of shape (tokens, vocab) and int64 of shape (tokens,), contiguous."""

output_t = torch.Tensor
"""The loss of every token: float32, shape (tokens,)."""
