#!POPCORN leaderboard matmul
"""One library call, in the precision that the device is fast in.

A GPU's tensor cores take float16 as it is.  Most CPUs have no arithmetic for it: widening the inputs costs m k + k n
conversions and buys the tuned float32 product, which keeps its running sums in registers.
"""

from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    a, b = data
    return a @ b if a.is_cuda else (a.float() @ b.float()).half()
