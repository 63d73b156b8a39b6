"""Calls the compiled function with torch tensors.  It runs inside the timed window, so it does only what it must."""

import ctypes
from collections.abc import Callable

import torch
from task import input_t, output_t


def bind(library: ctypes.CDLL) -> Callable[[input_t], output_t]:
    layer_norm_backward = library.layer_norm_backward
    layer_norm_backward.argtypes = [*[ctypes.c_void_p] * 8, *[ctypes.c_int64] * 2, ctypes.c_void_p]
    layer_norm_backward.restype = None

    def custom_kernel(data: input_t) -> output_t:
        _, x, weight, _, _ = data
        output = {"dx": torch.empty_like(x), "dweight": torch.empty_like(weight), "dbias": torch.empty_like(weight)}
        addresses = [tensor.data_ptr() for tensor in (*data, *output.values())]
        stream = torch.cuda.current_stream().cuda_stream if x.is_cuda else None
        layer_norm_backward(*addresses, *x.shape, stream)
        return output

    return custom_kernel
