"""Start processes through torch: torch.multiprocessing, and a DataLoader with a worker."""

import torch
import torch.multiprocessing
from torch.utils.data import DataLoader


def work(rank, source, target):
    target[rank] = source[rank].sort().values


def custom_kernel(data):
    values, _, scale = data
    source, target = values.view(2, -1).clone().share_memory_(), torch.empty(2, values.numel() // 2).share_memory_()
    torch.multiprocessing.start_processes(work, (source, target), nprocs=2, start_method="fork")
    loaded = torch.cat(list(DataLoader(target.view(-1), batch_size=values.numel() // 2, num_workers=1)))
    return loaded.sort().values * scale
