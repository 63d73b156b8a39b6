"""Cross-entropy, token by token, in float64, of logits that no shortcut survives."""

import math

import torch
from task import IGNORED, input_t, output_t

from harness.checker import compare

# Logits lie within 1000 of zero, where float32 has steps of 2^-14 = 0.00006.  In float32, then:
#   - the logarithm of the sum may be taken first and the right word's logit from it: off by half a step, 0.00003;
#     as much again if maxima were scaled by log2(e) for a fast exp2.  Whoever takes the maximum from the logit first
#     is off by less;
#   - the sum is off by some 2^-24 in a tree; one running sum over 128256 words was off by 0.00075;
#   - exponentials that are off by a few units in the last place shift the logarithm by 0.000001.
# Seen: 0.00005 in sensible orders.  0.001 lets even the running sum pass.  Losses of hundreds have a rounding of their
# own: rtol = 0.00001.  A loss that was rounded to bfloat16 is off by up to 1/256 of itself, to float16 by up to 1/2048:
# two to a hundred times what is allowed.
RTOL = 1e-5
ATOL = 1e-3


def generate_input(tokens: int, vocab: int, ignored: float, seed: int) -> input_t:
    """Each row has a size of its own, from 0.1 to 100, and a place of its own, up to some hundreds from zero."""
    torch.manual_seed(seed)
    size = 10 ** (3 * torch.rand(tokens, 1) - 1)
    place = 100 * torch.randn(tokens, 1)
    logits = torch.randn(tokens, vocab).mul_(size).add_(place).bfloat16()
    is_strict = torch.randperm(tokens) < tokens // 3
    # A kernel could skip a long run of forbidden words, but not scattered ones.
    sixteenth = vocab // 16
    others = torch.randperm(vocab - sixteenth) + sixteenth
    forbidden, allowed = others[: 3 * sixteenth], others[3 * sixteenth :]
    is_forbidden = (torch.arange(vocab) < sixteenth).index_fill_(0, forbidden, True)
    logits.masked_fill_(is_strict[:, None] & is_forbidden, -math.inf)
    of_all, of_allowed = torch.randint(vocab, (tokens,)), allowed[torch.randint(len(allowed), (tokens,))]
    labels = torch.where(is_strict, of_allowed, of_all)
    return logits, labels.masked_fill_(torch.randperm(tokens) < int(ignored * tokens), IGNORED)


def ref_kernel(data: input_t) -> output_t:
    logits, labels = data
    return torch.nn.functional.cross_entropy(logits.double(), labels, ignore_index=IGNORED, reduction="none").float()


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    return compare(output, ref_kernel(data), rtol=RTOL, atol=ATOL)
