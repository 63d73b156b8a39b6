"""Every rank has a matrix for each call, and all ranks get the sum.

This file runs in the task's own program, in the sandbox: it cannot import the harness.
"""

import torch

RTOL = 2**-8


def generate_input(world_size: int, calls: int, tokens: int, hidden: int, seed: int) -> torch.Tensor:
    """The matrices of all calls and ranks: bfloat16 of shape (calls, world_size, tokens, hidden)."""
    torch.manual_seed(seed)
    return torch.randn(calls, world_size, tokens, hidden).bfloat16()


def ref_kernel(data: torch.Tensor) -> torch.Tensor:
    """What each rank returns in its calls: bfloat16 of shape (calls, tokens, hidden)."""
    return data.float().sum(dim=1).bfloat16()


def check_implementation(data: torch.Tensor, output: torch.Tensor) -> tuple[bool, str]:
    """Compare the sums of one rank."""
    # bfloat16 has 8 significant bits, so an addition rounds by at most 2^-8 of its sum.  No partial sum is larger than
    # the sum of the magnitudes.  So this is the bound for `world_size - 1` additions in any order.
    parts = data.float()
    expected = parts.sum(dim=1)
    limit = parts.abs_().sum(dim=1) * ((data.shape[1] - 1) * RTOL)
    is_wrong = ~((output - expected).abs_() <= limit)  # a NaN is wrong, too
    if not is_wrong.any():
        return True, ""
    first = tuple(is_wrong.nonzero()[0].tolist())
    call, row, column = first
    return False, (
        f"{int(is_wrong.sum())} of {is_wrong.numel()} sums are wrong; element [{row}, {column}] of call {call} is "
        f"{output[first].item():.6g}, expected {expected[first].item():.6g}"
    )
