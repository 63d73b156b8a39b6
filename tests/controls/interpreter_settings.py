"""Change Python's settings: no garbage collection, deep recursion, warnings as errors, a profiler, an audit hook."""

import cProfile
import contextlib
import decimal
import gc
import sys
import threading
import warnings

import torch

gc.disable()
gc.freeze()
sys.setrecursionlimit(100_000)
sys.setswitchinterval(0.001)
sys.dont_write_bytecode = False
sys.addaudithook(lambda event, arguments: None)
sys.excepthook = lambda *error: None
threading.stack_size(64 << 20)
decimal.getcontext().prec = 50
warnings.simplefilter("error")


def depth(n):
    return 0 if n == 0 else 1 + depth(n - 1)


def custom_kernel(data):
    values, output, scale = data
    assert depth(20_000) == 20_000
    with contextlib.suppress(UserWarning):
        warnings.warn("an error now")
    with cProfile.Profile():
        ordered = values.sort().values
    del data, values
    return torch.mul(ordered, scale, out=output)
