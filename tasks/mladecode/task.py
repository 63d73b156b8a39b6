"""What goes in and what comes out."""

import torch

input_t = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, int, float]
"""`(q, cache, starts, lengths, latent, scale)`, all contiguous: queries, bfloat16, shape (batch, heads, width); the
cache, bfloat16, shape (rows, width); the first row of each sequence and the number of its rows, int32, shape (batch,);
how many numbers of a row are the latent ones; and what scores are multiplied by."""

output_t = torch.Tensor
"""For each query, the weighted mean of its sequence's latent vectors: bfloat16, shape (batch, heads, latent)."""
