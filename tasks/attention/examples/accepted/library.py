#!POPCORN leaderboard attention
"""PyTorch's own, which goes tile by tile and skips the future.  A GPU takes float16 as it is, a CPU wants float32."""

import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    q, k, v = data if data[0].is_cuda else (tensor.float() for tensor in data)
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).half()
