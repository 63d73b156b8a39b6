"""What goes in and what comes out."""

import torch

PAGE = 16
"""Tokens in a page of the cache."""

input_t = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]
"""`(q, k_cache, v_cache, block_table, lengths)`, all contiguous: queries, float16, shape (batch, heads, dim); keys and
values, float16, shape (pages, PAGE, kv_heads, dim); the pages of each sequence in order, int32, shape (batch, width);
the number of its tokens, int32, shape (batch,)."""

output_t = torch.Tensor
"""For each query, the weighted mean of its sequence's values: float16, shape (batch, heads, dim)."""
