#!POPCORN leaderboard rmsnorm
"""PyTorch's own, in float32: one pass, between a copy that widens and one that narrows."""

from task import EPSILON, input_t, output_t
from torch.nn.functional import rms_norm


def custom_kernel(data: input_t) -> output_t:
    x, weight = data
    return rms_norm(x.float(), weight.shape, weight.float(), EPSILON).half()
