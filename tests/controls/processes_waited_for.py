"""Fork children that fill shared memory, by hand and through multiprocessing, and wait for each of them."""

import mmap
import multiprocessing
import os
import sys

import torch

context = multiprocessing.get_context("fork")


def work(source, target):
    target.copy_(source.sort().values)


def custom_kernel(data):
    values, _, scale = data
    size = values.numel()
    halves = torch.empty(size).share_memory_()
    child = context.Process(target=work, args=(values[: size // 2], halves[: size // 2]))
    child.start()
    memory = mmap.mmap(-1, 4 * size)
    shared = torch.frombuffer(memory, dtype=torch.float32)
    if (pid := os.fork()) == 0:
        work(values[size // 2 :], shared[size // 2 :])
        sys.exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    child.join()
    assert child.exitcode == 0
    halves[size // 2 :] = shared[size // 2 :]
    return halves.sort().values * scale
