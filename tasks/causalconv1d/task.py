"""What goes in and what comes out, as `adapter.py` sees it; `task.h` has the same for C++."""

import torch

WIDTH = 4
"""Of the kernel: every output depends on the input at its own place, and on the three before it."""

input_t = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
"""`(x, weight, bias)`: float32, of shapes (batch, channels, length), (channels, 4) and (channels,), contiguous."""

output_t = torch.Tensor
"""The activated convolution: float32, shape (batch, channels, length)."""
