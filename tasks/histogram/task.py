"""What goes in and what comes out."""

import torch

input_t = tuple[torch.Tensor, int]
"""`(keys, bins)`: int32, shape (size,), contiguous, 0 <= keys < bins; and the number of bins."""

output_t = torch.Tensor
"""How often each key occurs: int32, shape (bins,)."""
