#!POPCORN leaderboard sort
#!POPCORN gpus CPU
#!/usr/bin/env python
# -*- coding: utf-8 -*-
# type: ignore
"""Begin with directives, a shebang and an encoding; end with a main block for trying it locally."""

from __future__ import annotations

import sys

import torch
from task import input_t, output_t

__all__ = ["custom_kernel"]


def custom_kernel(data: input_t) -> output_t:
    values, output, scale = data
    return torch.mul(torch.sort(values).values, scale, out=output)


if __name__ == "__main__":
    from reference import generate_input, ref_kernel

    example = generate_input(1000, 1)
    assert torch.equal(custom_kernel(example), ref_kernel(example))
    sys.exit(0)
