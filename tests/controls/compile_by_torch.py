"""Compile with torch.compile in the first call; later players find inductor's code in the sealed cache.

Task: blend
Needs: g++
"""

import torch


@torch.compile(dynamic=True)
def blend(left, right, bias, shift):
    return left * right + bias + shift


def custom_kernel(data):
    decay, flip, name, _ = data["settings"]
    total = blend(*data["matrices"], data["bias"], data["shift"])
    total = total.flip(0) if flip else total
    state = data["state"].mul_(decay).add_(total.sum(0))
    moments = [total.mean(), total.square().mean()]
    return {"blend": total, "state": state, "moments": moments, "rest": [data["nothing"], len(total), name, decay]}
