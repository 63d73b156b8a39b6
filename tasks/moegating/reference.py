"""Gating of a mixture of experts: who goes where, how much it counts, and who stands before whom."""

import torch
from task import input_t, output_t

from harness.checker import compare

# Experts, places and loads are whole numbers.  Which experts are chosen depends on which logits are larger, and they
# lie at least 8 / experts apart, 0.03 for 256 of them: no rounding in float32 changes their order, nor that of their
# exponentials, while bfloat16 makes ties of them even near zero.
#
# Weights: logits lie within 420 of zero, and float32 subtracts them from the largest one exactly, or nearly so: off by
# 2^-24 * 16, and so, relatively, is the exponential.  Fast exponentials are off by a few units in the last place,
# CUDA's __expf by 2 + 1.2 |x|: 20 * 2^-24.  Sums and divisions add some 2^-22, twice that if the softmax is over all
# experts and then divided by the sum of the chosen: 0.000003 in all.  Whoever scales logits by log2(e) before he
# subtracts the largest rounds numbers of 600: 0.00004 was seen.  More than twice that is granted.  Weights that were
# rounded to float16 are off by up to 0.0005.
RTOL = 1e-4

SPREAD = 16.0
"""From the smallest to the largest logit of a token."""


def generate_input(tokens: int, experts: int, k: int, skew: float, seed: int) -> input_t:
    """Logits are evenly spaced, shaken by less than half a space, and dealt out by rank: so there are no ties."""
    torch.manual_seed(seed)
    liking = torch.rand(tokens, experts) + skew * torch.rand(experts)
    place = 100 * torch.randn(tokens, 1).clamp_(-4, 4)
    ascending = torch.rand(tokens, experts).mul_(0.45).add_(torch.arange(experts)).mul_(SPREAD / experts).add_(place)
    return torch.empty_like(liking).scatter_(1, liking.argsort(dim=1), ascending), k


def ref_kernel(data: input_t) -> output_t:
    logits, k = data
    chosen = torch.topk(logits, k, dim=1)
    loads = torch.bincount(chosen.indices.view(-1), minlength=logits.shape[1])
    return {
        "experts": chosen.indices.int(),
        "weights": torch.softmax(chosen.values.double(), dim=1).float(),
        "places": _places(chosen.indices, loads).int(),
        "loads": loads.int(),
    }


def _places(experts: torch.Tensor, loads: torch.Tensor) -> torch.Tensor:
    """A stable sort by expert lines all queues up, one after the other; a place counts from where its queue begins."""
    queued, order = torch.sort(experts.view(-1), stable=True)
    begins = loads.cumsum(dim=0) - loads
    places = torch.empty_like(queued)
    places[order] = torch.arange(queued.numel()) - begins[queued]
    return places.view(experts.shape)


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    return compare(output, ref_kernel(data), rtol=RTOL, atol=0)
