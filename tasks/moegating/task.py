"""What goes in and what comes out."""

import torch

input_t = tuple[torch.Tensor, int]
"""`(logits, k)`: float32, shape (tokens, experts), contiguous; and how many experts each token is sent to."""

output_t = dict[str, torch.Tensor]
"""`experts` int32, `weights` float32, `places` int32, of shape (tokens, k); `loads` int32, of shape (experts,)."""
