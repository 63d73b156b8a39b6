#!POPCORN leaderboard softmax
#!PULLRANK needs jax
"""JAX's softmax, compiled by XLA.  The numbers cross over by DLPack both ways, and nothing is copied.

JAX goes on while Python does: `block_until_ready` waits, so that what is handed back is there.
"""

import jax
import torch
from task import input_t, output_t

softmax = jax.jit(jax.nn.softmax)


def custom_kernel(data: input_t) -> output_t:
    result = softmax(jax.dlpack.from_dlpack(data))
    return torch.from_dlpack(result.block_until_ready())
