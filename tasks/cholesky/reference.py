"""Cholesky factors, judged by what they multiply to: their product in float64 against the matrix."""

import torch
from task import input_t, output_t

from harness.checker import compare, mismatch

# A factor may be far from the exact one although every step was right, if the matrix is nearly singular.  Its product
# may not: each element of A is a sum of up to n products of elements of L, whose sizes add up to at most
# s = sqrt(a_ii a_jj) (Cauchy-Schwarz).  So each element is judged by its own s, however small its row is beside others.
# With e = 2^-24:
#   - storing L rounds each product twice, which costs 2 e s;
#   - a root and a quotient, or the product with a GPU's fast inverse root, cost up to 8 e s;
#   - n roundings of partial sums cost n e s at worst, and some sqrt(n) e s as they come; the largest of a million
#     elements is a few times that.
# (8 + 4 sqrt(n)) e s allows that.  Seen: 4 e s for n = 1, 9 for 33, 18 for 128, 25 for 257 and 33 for 500, column by
# column; less in blocks, and also if a product is taken as three products of TF32 or float16 parts, added in float32.
# So an honest kernel uses a third of what is allowed.  Products in TF32 or float16 are off by 7000 e s and more,
# products of two bfloat16 parts by 170 e s and more.
ALLOWED = 8 * 2**-24
ALLOWED_PER_SQRT_N = 4 * 2**-24

LEAST = 1e-3
"""Of the noise.  Float16 products lose nearly all digits of a pivot of that size; float32 keeps two or three."""


def generate_input(batch: int, n: int, seed: int) -> input_t:
    """Covariances of n variables that share n causes: the first counts most, and each variable has noise of its own.

    Each matrix has an amount of noise of its own, and each variable a unit of its own, from 0.01 to 100.
    """
    torch.manual_seed(seed)
    causes = torch.randn(batch, n, n).div_(torch.arange(1, n + 1))
    product = causes @ causes.mT
    a = product.tril().add_(product.tril_(-1).mT)  # libraries may round the two halves differently
    a.diagonal(dim1=1, dim2=2).add_(LEAST ** torch.rand(batch, 1))
    unit = 10 ** (4 * torch.rand(batch, n) - 2)
    return a.mul_(unit[:, :, None] * unit[:, None, :])


def ref_kernel(data: input_t) -> output_t:
    return torch.linalg.cholesky(data.double()).float()


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    if message := mismatch(output, data):
        return False, message
    is_lower, message = compare(output, output.tril(), rtol=0, atol=0)
    if not is_lower:
        return False, message
    is_positive = output.diagonal(dim1=1, dim2=2) > 0
    if not is_positive.all():
        matrix, row = (~is_positive).nonzero()[0].tolist()
        return False, f"output[{matrix}, {row}, {row}] is {output[matrix, row, row]:.5g}, expected a positive number"
    return _compare_product(data, output.double())


def _compare_product(a: torch.Tensor, factor: torch.Tensor) -> tuple[bool, str]:
    """Whether `factor` times its transpose is `a`."""
    of_size = ALLOWED + ALLOWED_PER_SQRT_N * a.shape[1] ** 0.5
    root = a.diagonal(dim1=1, dim2=2).double().mul_(of_size).sqrt_()
    allowed = root[:, :, None] * root[:, None, :]
    error = (factor @ factor.mT).sub_(a).abs_()
    is_right = error <= allowed  # false for NaN
    if is_right.all():
        return True, ""
    wrong = (~is_right).nonzero()
    first = tuple(wrong[0].tolist())
    return False, (
        f"(output @ output.mT){list(first)} is off by {error[first]:.2g} from {a[first]:.5g} "
        f"(allowed {allowed[first]:.2g}); {len(wrong)} of {a.numel()} differ"
    )
