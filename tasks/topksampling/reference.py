"""Top-k sampling in float64, with random numbers that are not too close to any border between two tokens."""

import math

import torch
from task import input_t, output_t

from harness.checker import compare

# Tokens are compared exactly, so no rounding of an honest kernel may change one.  A kernel chooses another token only
# if its cumulative sum next to u lies on the other side of u.  So the generator keeps every u at least MARGIN away from
# every cumulative sum, and from 0 and 1.
#
# How far off can a cumulative sum be?  Let e = 2^-24.  In float32:
#   - Logits lie within 67 of zero and temperatures are at least 0.25, so quotients lie within 268 of zero, and within
#     387 if they are scaled by log2(exp(1)) for a fast exp2.  A kernel that scales before it subtracts the maximum
#     rounds up to three times: 3 * 387 e = 0.00007.  That is an absolute error of an exponent, and so a relative one of
#     a power.  Differences of unscaled logits are exact: all are multiples of 1/256.
#   - Fast exponentials are off by a few e, CUDA's __expf by 2 + 1.2 |x| units: 0.000003 at x = -20.  Smaller powers do
#     not matter.
#   - A running sum of k terms is off by k e in the worst order: 0.00006 for 1024.
#   - Division by the sum, or multiplication of u by it: e.
# If every power has a relative error of at most r, a share s of the sum is off by at most 2 r s (1 - s) <= r / 2, and
# so by 0.000037.  Together with the worst running sum this is 0.0001.  MARGIN is 0.00012.  Seen: 0.000004.
#
# Rounding to float16 moves sums by 0.0003 to 0.0006 if probabilities or their sums are rounded; rounding to bfloat16
# moves them by 0.005.  Logits near 60 are off by up to 1/64 in float16: sums move by 0.02, and the order changes.  One
# row in 25 then gets another token.
MARGIN = 2**-13


def generate_input(batch: int, vocab: int, bits: int, largest: int, seed: int) -> input_t:
    """Each row has a spread, a place and a step of its own.

    Logits are multiples of the step: 1/256, for which float16 lacks the digits, or 1/8, so that equals are frequent.
    """
    torch.manual_seed(seed)
    spread = 2 + 2 * torch.rand(batch, 1)
    place = torch.randint(-40, 41, (batch, 1))
    step = torch.where(torch.rand(batch, 1) < 1 / 4, 2**-3, 2**-8)
    # The place comes last: zero plus a place of zero is never minus zero.
    logits = torch.randn(batch, vocab).mul_(spread / step).round_().mul_(step).add_(place)
    logits = logits.to({16: torch.bfloat16, 32: torch.float32}[bits])
    # A kernel could skip a long run of forbidden tokens, but not scattered ones.
    sixteenth = vocab // 16
    forbidden = sixteenth + torch.randperm(vocab - sixteenth)[: 3 * sixteenth]
    is_forbidden = (torch.arange(vocab) < sixteenth).index_fill_(0, forbidden, True)
    logits.masked_fill_((torch.randperm(batch) < batch // 3)[:, None] & is_forbidden, -math.inf)
    k = torch.randint(1, largest + 1, (batch,), dtype=torch.int32)
    temperature = 0.25 + 1.25 * torch.rand(batch)
    return logits, k, temperature, _away_from_borders(_best(logits, k, temperature, largest)[1]), largest


def _away_from_borders(sums: torch.Tensor) -> torch.Tensor:
    """One number for each row, uniform over all numbers that are MARGIN away from 0 and from each of the row's sums.

    Every token owns the numbers from the sum before it to its own sum; MARGIN at either end is taken away.  Tokens
    with less than two MARGINs own nothing.  The first has several times that, since it lies far above most.
    """
    shares = sums.diff(dim=1, prepend=torch.zeros(sums.shape[0], 1, dtype=torch.float64))
    room = (shares - 2 * MARGIN).clamp_(min=0)
    rooms = room.cumsum(dim=1)
    drawn = torch.rand(sums.shape[0], 1, dtype=torch.float64) * rooms[:, -1:]
    token = (rooms <= drawn).sum(dim=1, keepdim=True).clamp_(max=sums.shape[1] - 1)
    return (sums - MARGIN - (rooms - drawn)).gather(1, token)[:, 0].float()


def _best(
    logits: torch.Tensor, k: torch.Tensor, temperature: torch.Tensor, largest: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """The `largest` first tokens of each row, and the cumulative sums of their probabilities, which end at 1 after k.

    Logits become integers of the same order (minus zero does not occur).  Shifted by 32 bits, with the token's number
    subtracted, no two are equal, and the lower number comes first.
    """
    bits = logits.float().view(torch.int32)
    keys = (bits ^ ((bits >> 31) & 0x7FFFFFFF)).long()
    keys <<= 32
    keys -= torch.arange(logits.shape[1])
    tokens = torch.topk(keys, largest, dim=1).indices
    chosen = logits.gather(1, tokens).double()
    powers = torch.exp((chosen - chosen[:, :1]) / temperature.double()[:, None])
    sums = powers.masked_fill_(torch.arange(largest) >= k[:, None], 0).cumsum(dim=1)
    return tokens, sums / sums[:, -1:]


def ref_kernel(data: input_t) -> output_t:
    logits, k, temperature, u, largest = data
    tokens, sums = _best(logits, k, temperature, largest)
    place = (sums <= u[:, None]).sum(dim=1, keepdim=True)
    return tokens.gather(1, place)[:, 0].int()


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    return compare(output, ref_kernel(data), rtol=0, atol=0)
