"""Sort with OpenMP threads in C++, which stay alive between calls; compiled once, into the cache.

Mode: benchmark
Needs: g++
"""

import ctypes
import os
import subprocess
from pathlib import Path

SOURCE = r"""
#include <algorithm>
#include <omp.h>
extern "C" int sort_and_scale(const float *values, float *output, long size, float scale) {
    int threads = 0;
    #pragma omp parallel num_threads(2)
    {
        #pragma omp atomic
        threads++;
        #pragma omp for
        for (int half = 0; half < 2; half++) {
            long start = half * (size / 2), end = half ? size : size / 2;
            for (long i = start; i < end; i++) output[i] = values[i] * scale;
            std::sort(output + start, output + end);
        }
    }
    std::inplace_merge(output, output + size / 2, output + size);
    return threads;
}
"""

library = Path(os.environ["XDG_CACHE_HOME"], "sort.so")
if not library.exists():
    library.parent.mkdir(parents=True, exist_ok=True)
    command = ["g++", "-O2", "-fopenmp", "-shared", "-fPIC", "-x", "c++", "-", "-o", str(library)]
    subprocess.run(command, input=SOURCE.encode(), check=True)
native = ctypes.CDLL(str(library))


def custom_kernel(data):
    values, output, scale = data
    addresses = (ctypes.c_void_p(tensor.data_ptr()) for tensor in (values, output))
    assert native.sort_and_scale(*addresses, ctypes.c_long(values.numel()), ctypes.c_float(scale)) == 2
    return output
