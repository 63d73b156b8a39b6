"""The backward pass of a layer norm, in float64, with the means and deviations that the forward pass has saved."""

import torch
from task import input_t, output_t

from harness.checker import compare, mismatch

EPSILON = 0.00001
"""Added to the variance in the forward pass."""

# Let u = 2^-24.  The normalised input n is about N(0, 1), and so are gradients and weights.  In float32:
#   - n is rounded twice, and the product of gradient and weight once.  Both means of a token are off by less than u,
#     even in the worst order, where a sum is off by 0.3 u hidden.  Three terms of size 10 or less are off by 30 u or
#     so, and `dx` by rstd times that.  ATOL = 2^-18 is 64 u;
#   - terms of the sums over tokens are rounded three times: less than 64 u for a few of them, 2 u sqrt(tokens) for
#     many;
#   - one running sum rounds `tokens` times, at sizes of sqrt(tokens): 0.3 u tokens typically, several times that at
#     worst, and far less in blocks or trees.  ATOL_PER_TOKEN = 2^-22 is 4 u.
# Seen: an eighth of what is allowed in `dx`, and a third in the sums, in all sensible orders.  Kernels that subtract
# the mean only after a multiplication are off by 3 to 30 times what is allowed in `dweight`, by up to 16 times in `dx`.
# Inputs that were rounded to float16 or TF32: 6 to 400 times in `dbias`, hundreds and more elsewhere.  Results that
# were rounded to float16: 6 to 300 times.
RTOL = 2**-20
ATOL = 2**-18
ATOL_PER_TOKEN = 2**-22


def generate_input(tokens: int, hidden: int, seed: int) -> input_t:
    """Each token has a size of its own, from 1/2 to 2, and a place of its own, up to some hundreds from zero."""
    torch.manual_seed(seed)
    size = 2 ** (2 * torch.rand(tokens, 1) - 1)
    place = 100 * torch.randn(tokens, 1)
    x = torch.randn(tokens, hidden).mul_(size).add_(place)
    variance, mean = torch.var_mean(x.double(), dim=1, correction=0)
    rstd = variance.add_(EPSILON).rsqrt_()
    return torch.randn(tokens, hidden), x, torch.randn(hidden).mul_(0.5).add_(1), mean.float(), rstd.float()


def ref_kernel(data: input_t) -> output_t:
    dy, x, weight, mean, rstd = (tensor.double() for tensor in data)
    normal = (x - mean[:, None]).mul_(rstd[:, None])
    dweight, dbias = (dy * normal).sum(dim=0), dy.sum(dim=0)
    scaled = dy * weight
    along = (scaled * normal).mean(dim=1, keepdim=True)
    dx = scaled.sub_(scaled.mean(dim=1, keepdim=True)).sub_(normal.mul_(along)).mul_(rstd[:, None])
    return {"dx": dx.float(), "dweight": dweight.float(), "dbias": dbias.float()}


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    expected = ref_kernel(data)
    if message := mismatch(output, expected):
        return False, message
    tokens, largest = data[1].shape[0], float(data[4].max())
    of_sums = ATOL + ATOL_PER_TOKEN * tokens
    for name, atol in {"dx": ATOL * largest, "dweight": of_sums, "dbias": of_sums}.items():
        right, message = compare({name: output[name]}, {name: expected[name]}, rtol=RTOL, atol=atol)
        if not right:
            return False, message
    return True, ""
