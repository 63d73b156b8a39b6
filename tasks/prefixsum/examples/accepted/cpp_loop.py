#!POPCORN leaderboard prefixsum
#!PULLRANK needs g++ ninja
"""One pass in C++, compiled by torch's `load_inline`; the sum is kept in float64, and goes where its last term was.

The build compiles it, and every other player finds it compiled.  All of torch's headers would make that take several
times as long; a library of operators needs two of them.
"""

import torch
from task import input_t, output_t
from torch.utils.cpp_extension import load_inline

SOURCE = """
#include <ATen/core/Tensor.h>
#include <torch/library.h>

void scan(at::Tensor numbers) {
    float *number = numbers.data_ptr<float>();
    double sum = 0;
    for (int64_t i = 0; i < numbers.numel(); i++) {
        sum += number[i];
        number[i] = sum;
    }
}

TORCH_LIBRARY(prefixsum, library) { library.def("scan", &scan); }
"""

load_inline("prefixsum", SOURCE, is_python_module=False, no_implicit_headers=True, extra_cflags=["-O2"])


def custom_kernel(data: input_t) -> output_t:
    torch.ops.prefixsum.scan(data)
    return data
