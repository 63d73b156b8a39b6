"""Compile C++ in /tmp when imported, by calling g++, and call it through ctypes.

Needs: g++
"""

import ctypes
import ctypes.util
import subprocess
import tempfile
from pathlib import Path

SOURCE = r"""
#include <algorithm>
extern "C" void sort_and_scale(const float *values, float *output, long size, float scale) {
    std::copy(values, values + size, output);
    std::sort(output, output + size);
    for (long i = 0; i < size; i++) output[i] *= scale;
}
"""

folder = Path(tempfile.mkdtemp())
subprocess.run(
    ["g++", "-O1", "-shared", "-fPIC", "-x", "c++", "-", "-o", str(folder / "kernel.so")],
    input=SOURCE.encode(),
    check=True,
    capture_output=True,
)
library = ctypes.CDLL(str(folder / "kernel.so"))
assert ctypes.CDLL(ctypes.util.find_library("m")).abs(-3) == 3


def custom_kernel(data):
    values, output, scale = data
    addresses = (ctypes.c_void_p(tensor.data_ptr()) for tensor in (values, output))
    library.sort_and_scale(*addresses, ctypes.c_long(values.numel()), ctypes.c_float(scale))
    return output
