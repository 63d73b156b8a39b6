"""Compile a C++ extension with torch.utils.cpp_extension.load_inline; later players find it in the sealed cache.

Task: blend
Needs: g++, ninja
"""

import torch
from torch.utils.cpp_extension import load_inline

SOURCE = """
#include <ATen/ATen.h>
#include <torch/library.h>
at::Tensor blend(at::Tensor left, at::Tensor right, at::Tensor bias, at::Tensor shift) {
    return left * right + bias + shift;
}
TORCH_LIBRARY(control, library) { library.def("blend", &blend); }
"""

# Bindings to Python and the headers of all of torch would double the build time.
load_inline("control", SOURCE, is_python_module=False, no_implicit_headers=True, extra_cflags=["-O0"])


def custom_kernel(data):
    decay, flip, name, _ = data["settings"]
    total = torch.ops.control.blend(*data["matrices"], data["bias"], data["shift"])
    total = total.flip(0) if flip else total
    state = data["state"].mul_(decay).add_(total.sum(0))
    moments = (total.mean(), total.square().mean())
    return {"blend": total, "state": state, "moments": moments, "rest": [data["nothing"], len(total), name, decay]}
