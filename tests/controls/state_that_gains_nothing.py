"""Count the calls, remember a table for each size, draw pivots from a generator: state that holds no answer.

Mode: benchmark
"""

from dataclasses import dataclass, field
from functools import lru_cache

import torch


@dataclass
class State:
    calls: int = 0
    sizes: set[int] = field(default_factory=set)
    generator: torch.Generator = field(default_factory=lambda: torch.Generator().manual_seed(7))


state = State()


@lru_cache(maxsize=8)
def places(size):
    return torch.arange(size).flip(0)


def custom_kernel(data):
    values, output, scale = data
    state.calls += 1
    state.sizes.add(values.numel())
    shuffled = values[torch.randperm(values.numel(), generator=state.generator)]
    descending = shuffled.sort(descending=True).values
    return torch.mul(descending[places(values.numel())], scale, out=output)
