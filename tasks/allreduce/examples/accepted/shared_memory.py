#!POPCORN leaderboard allreduce
"""Ranks of one machine need no network: each writes its matrix where all can read it, and each adds them all.

Calls use two buffers in turn.  A rank begins a call after it has ended the one before, and all ranks wait for each other
in each call.  So all ranks have read a buffer before one writes to it again.  x86 processors show writes to other cores
in their order, so that a matrix is there when its rank counts the call.  On GPUs, this uses the library.
"""

import os
import tempfile

import torch
import torch.distributed as dist
from task import input_t, output_t

buffers_of: dict[int, "SharedBuffers"] = {}


class SharedBuffers:
    """Memory of all ranks for matrices of one size, and how many calls each rank has begun."""

    def __init__(self, count: int, rank: int, world_size: int) -> None:
        path = [tempfile.mkdtemp()] if rank == 0 else [""]
        dist.broadcast_object_list(path, src=0)
        file = os.path.join(path[0], "shared")
        if rank == 0:
            with open(file, "wb") as shared:
                shared.truncate(2 * world_size * count * 2 + world_size * 64)
        dist.barrier()
        self.rank = rank
        self.call = 0
        every = torch.from_file(file, shared=True, size=world_size * (2 * count + 32), dtype=torch.bfloat16)
        self.begun = every[: world_size * 32].view(torch.int64)[::8].numpy()
        self.buffers = every[world_size * 32 :].view(2, world_size, count)
        dist.barrier()
        if rank == 0:
            os.unlink(file)

    def sum(self, x: torch.Tensor) -> torch.Tensor:
        buffer = self.buffers[self.call % 2]
        buffer[self.rank].copy_(x.view(-1))
        self.call += 1
        self.begun[self.rank] = self.call
        while self.begun.min() < self.call:
            os.sched_yield()
        total = torch.add(buffer[0], buffer[1], out=x.view(-1))
        for part in buffer[2:]:
            total += part
        return x


def custom_kernel(data: input_t) -> output_t:
    x, rank, world_size = data
    if x.is_cuda or world_size == 1:
        dist.all_reduce(x)
        return x
    count = x.numel()
    if count not in buffers_of:
        buffers_of[count] = SharedBuffers(count, rank, world_size)
    return buffers_of[count].sum(x)
