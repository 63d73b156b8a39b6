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
    got = [torch.empty_like(slices[rank]) for _ in range(world_size)]
    exchange(slices, got, rank)
    sums = torch.stack([slices[rank], *(one for other, one in enumerate(got) if other != rank)]).float().sum(dim=0)
    slices[rank].copy_(sums)
    exchange([slices[rank]] * world_size, slices, rank)
    return x


def exchange(sent: list[torch.Tensor], received: list[torch.Tensor], rank: int) -> None:
    """Send a tensor to each other rank, and receive one from each."""
    others = [other for other in range(len(sent)) if other != rank]
    waits = [dist.isend(sent[other], other) for other in others]
    waits += [dist.irecv(received[other], other) for other in others]
    for wait in waits:
        wait.wait()
