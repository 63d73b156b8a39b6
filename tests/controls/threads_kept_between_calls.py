"""Keep a pool of threads, a worker with a queue and a heartbeat between the calls; wait for every result.

Mode: benchmark
"""

import queue
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import torch

pool = ThreadPoolExecutor(2)
orders, answers = queue.Queue(), queue.Queue()
beats = []


def work():
    while True:
        low, high, scale, output = orders.get()
        answers.put(torch.mul(torch.cat([low, high]).sort().values, scale, out=output))


def beat():
    while True:
        time.sleep(0.05)
        beats[:] = [time.monotonic()]


for target in (work, beat):
    threading.Thread(target=target, daemon=True).start()


def custom_kernel(data):
    values, output, scale = data
    low, high = pool.map(lambda part: part.sort().values, values.chunk(2))
    orders.put((low, high, scale, output))
    return answers.get(timeout=30)
