"""The files of a new task with compiled submissions: softsign again, in C++ for a CPU or in CUDA C++ for GPUs.

task.h  adapter.py  template.cu
examples/accepted/plain.cu                  the anchor
examples/wrong_answer/forgets_the_tail.cu

task.yml, task.py and reference.py are as in Python (`scaffold`).
"""

from __future__ import annotations

STATEMENT = """\
  `submission.cu` defines what `task.h` declares: `softsign` reads `size` float32 numbers from `x` and writes as many to
  `y`. Both are contiguous and do not overlap; PLACE. The input is yours; you may overwrite it.
"""

ON_CPU = "they are host memory"
ON_GPU = "they are device memory, and all your work on them is on `stream`"

HOW = """\
// Save this as submissions/NAME/<your login>/submission.cu and open a pull request:
// a draft is only tested; a pull request that is ready for review is ranked.
// Test it on your own machine first: pullrank test submission.cu
"""


def compiled_files(directive: str, how: str, *, on_gpu: bool) -> dict[str, str]:
    """Name and content of the files that differ from a Python task's."""
    template = (_KERNEL if on_gpu else _LOOP).replace("COUNT", "(size + 255) / 256" if on_gpu else "size")
    wrong = (_KERNEL if on_gpu else _LOOP).replace("COUNT", "size / 256" if on_gpu else "size / 4 * 4")
    stream = ", cudaStream_t stream" if on_gpu else ""
    header = _HEADER.replace("STREAM", stream).replace("INCLUDES", _CUDA if on_gpu else "#include <cstdint>\n")
    return {
        "task.h": header,
        "adapter.py": _adapter(on_gpu=on_gpu),
        "template.cu": directive + how + template,
        "examples/accepted/plain.cu": directive + template,
        "examples/wrong_answer/forgets_the_tail.cu": directive + wrong,
    }


def _adapter(*, on_gpu: bool) -> str:
    replaced = {
        "TYPES": "ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64" + (", ctypes.c_void_p" if on_gpu else ""),
        "GIVEN": "data.data_ptr(), y.data_ptr(), data.numel()"
        + (", torch.cuda.current_stream().cuda_stream" if on_gpu else ""),
    }
    text = _ADAPTER
    for word, words in replaced.items():
        text = text.replace(word, words)
    return text


_CUDA = """\
#include <cstdint>
#include <cuda_runtime.h>
"""

_HEADER = """\
#pragma once
INCLUDES
// Every submission defines this function; the declaration gives it C linkage.
extern "C" void softsign(const float *x, float *y, int64_t sizeSTREAM);
"""

_ADAPTER = '''\
"""Calls the compiled function with torch tensors.  It runs inside the timed window, so it does only what it must."""

import ctypes
from collections.abc import Callable

import torch
from task import input_t, output_t


def bind(library: ctypes.CDLL) -> Callable[[input_t], output_t]:
    softsign = library.softsign
    softsign.argtypes = [TYPES]
    softsign.restype = None

    def custom_kernel(data: input_t) -> output_t:
        y = torch.empty_like(data)
        softsign(GIVEN)
        return y

    return custom_kernel
'''

_LOOP = """\
#include "task.h"

#include <cmath>

void softsign(const float *x, float *y, int64_t size) {
    for (int64_t i = 0; i < COUNT; ++i) y[i] = x[i] / (1 + std::fabs(x[i]));
}
"""

_KERNEL = """\
#include "task.h"

__global__ void squash(const float *x, float *y, int64_t size) {
    const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
    if (i < size) y[i] = x[i] / (1 + fabsf(x[i]));
}

void softsign(const float *x, float *y, int64_t size, cudaStream_t stream) {
    squash<<<COUNT, 256, 0, stream>>>(x, y, size);
}
"""
