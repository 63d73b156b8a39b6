"""Calls the compiled function with torch tensors.  It runs inside the timed window, so it does only what it must."""

import ctypes
from collections.abc import Callable

import torch
from task import input_t, output_t


def bind(library: ctypes.CDLL) -> Callable[[input_t], output_t]:
    causal_conv1d = library.causal_conv1d
    causal_conv1d.argtypes = [*[ctypes.c_void_p] * 4, *[ctypes.c_int64] * 3, ctypes.c_void_p]
    causal_conv1d.restype = None

    def custom_kernel(data: input_t) -> output_t:
        x, weight, bias = data
        y = torch.empty_like(x)
        stream = torch.cuda.current_stream().cuda_stream if x.is_cuda else None
        causal_conv1d(x.data_ptr(), weight.data_ptr(), bias.data_ptr(), y.data_ptr(), *x.shape, stream)
        return y

    return custom_kernel
