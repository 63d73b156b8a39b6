"""Start threads by the dozen, and join them all before the call returns."""

import threading
from concurrent.futures import ThreadPoolExecutor

import torch


def custom_kernel(data):
    values, output, scale = data
    parts = list(values.chunk(32))
    together = threading.Barrier(len(parts))

    def sort(index):
        together.wait()  # all 32 at once
        parts[index] = parts[index].sort().values

    with ThreadPoolExecutor(len(parts)) as pool:
        list(pool.map(sort, range(len(parts))))
    merge = threading.Thread(target=lambda: torch.mul(torch.cat(parts).sort().values, scale, out=output))
    merge.start()
    merge.join()
    return output
