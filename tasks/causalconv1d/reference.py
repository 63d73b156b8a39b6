"""A causal convolution of width 4 and its SiLU, in float64: the input is shifted, weighted and summed."""

import torch
from task import WIDTH, input_t, output_t

from harness.checker import compare

# Let u = 2^-24, and T the sum of |bias| and of all |weight x| of an output: 50 typically in the largest channels, and
# 350 at most in a million outputs.  In float32:
#   - four products and four sums are each off by u T at most, and by far less typically, since few partial sums are as
#     large as T.  Where large terms cancel, the output is small and just as far off; the slope of the SiLU is below
#     1.1;
#   - fast exponentials are off by 2 + 1.2 |z| units in the last place (CUDA's __expf), which costs 3 u at most for
#     negative z, where outputs are small, and less than 3 u |y| for others.  1/2 (1 + tanh(z / 2)) is off by u |z|, and
#     |z| is not larger than T;
#   - the quotient is off by 2 u |y|.
# ATOL = 2^-13 is 6 u T for the largest T, and RTOL = 2^-20 is 16 u.  Seen: an eighth of what is allowed, in all orders.
# Inputs and weights that were rounded to float16 or TF32 are off by 60 to 800 times what is allowed, results that were
# rounded to float16 by 40 to 300 times, and so is a sigmoid by the GPU's tanh.approx.
RTOL = 2**-20
ATOL = 2**-13


def generate_input(batch: int, channels: int, length: int, seed: int) -> input_t:
    """Each channel has a size of its own, from 1 to 50: sums of hundreds occur, whose exponentials overflow."""
    torch.manual_seed(seed)
    size = 50 ** torch.rand(channels, 1)
    x = torch.randn(batch, channels, length).mul_(size)
    return x, torch.randn(channels, WIDTH).mul_(0.5), torch.randn(channels)


def ref_kernel(data: input_t) -> output_t:
    x, weight, bias = data
    length = x.shape[2]
    padded = torch.nn.functional.pad(x, (WIDTH - 1, 0)).double()
    total = bias.double()[:, None].expand(x.shape).clone()
    for place in range(WIDTH):
        total.addcmul_(padded[:, :, place : place + length], weight.double()[:, place, None])
    return total.mul_(total.sigmoid()).float()


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    return compare(output, ref_kernel(data), rtol=RTOL, atol=ATOL)
