"""What goes in and what comes out, as `adapter.py` sees it; `task.h` has the same for C++."""

import torch

input_t = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]
"""`(dy, x, weight, mean, rstd)`: float32, contiguous; `dy` and `x` of shape (tokens, hidden), `weight` of shape
(hidden,), `mean` and `rstd` of shape (tokens,)."""

output_t = dict[str, torch.Tensor]
"""`dx` of shape (tokens, hidden), `dweight` and `dbias` of shape (hidden,): float32."""
