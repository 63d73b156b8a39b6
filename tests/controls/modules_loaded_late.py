"""Import modules only inside of the call, by name, lazily, and with changed sys.path and sys.modules."""

import importlib
import sys


def __getattr__(name):
    if name == "library":
        return importlib.import_module("torch")
    raise AttributeError(name)


def custom_kernel(data):
    import ctypes.util
    import multiprocessing.shared_memory
    import xml.etree.ElementTree as etree

    import torch.fft
    import torch.utils.benchmark

    sys.path.insert(0, "/tmp")
    with open("/tmp/late_module.py", "w") as file:
        file.write("def double(x): return x * 2\n")
    importlib.invalidate_caches()
    late = importlib.import_module("late_module")
    del sys.modules["late_module"]
    torch_again = sys.modules[__name__].library
    values, output, scale = data
    assert etree.fromstring("<a/>").tag == "a" and multiprocessing.shared_memory and ctypes.util
    return torch_again.mul(late.double(values.sort().values), scale / 2, out=output)
