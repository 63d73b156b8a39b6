"""Keep two worker processes and give each call's halves to them.

Mode: benchmark
"""

import multiprocessing

import torch

context = multiprocessing.get_context("fork")
LARGEST = 1 << 16
shared = torch.empty(LARGEST).share_memory_()


def work(pipe):
    torch.set_num_threads(1)
    while True:
        start, end = pipe.recv()
        shared[start:end] = shared[start:end].sort().values
        pipe.send("sorted")


def start():
    ours, theirs = context.Pipe()
    context.Process(target=work, args=(theirs,), daemon=True).start()
    return ours


pipes = [start(), start()]


def custom_kernel(data):
    values, output, scale = data
    size = values.numel()
    shared[:size] = values
    for pipe, ends in zip(pipes, ((0, size // 2), (size // 2, size))):
        pipe.send(ends)
    assert [pipe.recv() for pipe in pipes] == ["sorted", "sorted"]
    return torch.mul(shared[:size].sort().values, scale, out=output)


if __name__ == "__main__":
    print("never here")
