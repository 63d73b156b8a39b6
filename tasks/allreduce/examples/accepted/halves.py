#!POPCORN leaderboard allreduce
"""Each rank sums its own slice of all matrices, and then sends it to the others.

With more than two ranks, this sends less than `all_gather` does.  The last slices may be shorter, or empty.
"""

import torch
import torch.distributed as dist
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    x, rank, world_size = data
    flat = x.view(-1)
    slices = list(flat.split(-(-flat.numel() // world_size)))
    slices += [flat[:0]] * (world_size - len(slices))
    got = [slices[rank], *(torch.empty_like(slices[rank]) for _ in range(world_size - 1))]
    others = [other for other in range(world_size) if other != rank]
    exchange([(slices[other], place, other) for other, place in zip(others, got[1:], strict=True)])
    slices[rank].copy_(torch.stack(got).float().sum(dim=0))
    exchange([(slices[rank], slices[other], other) for other in others])
    return x


def exchange(parts: list[tuple[torch.Tensor, torch.Tensor, int]]) -> None:
    """Send a tensor to each other rank, and receive one from it."""
    sends = [dist.P2POp(dist.isend, sent, other) for sent, _, other in parts]
    receives = [dist.P2POp(dist.irecv, received, other) for _, received, other in parts]
    if parts:
        for wait in dist.batch_isend_irecv([*sends, *receives]):
            wait.wait()
