"""Take views of everything: transposed and expanded inputs, outputs with steps, offsets and no contiguity at all.

Task: blend
Mode: benchmark
"""

import torch


def custom_kernel(data):
    left, right = data["matrices"]
    decay, flip, name, _ = data["settings"]
    rows, columns = left.shape
    wide = torch.empty(columns, 2 * rows, dtype=left.dtype)
    blend = wide[:, 1::2].t()  # a transposed view with a step
    torch.addcmul(data["bias"] + data["shift"].expand(rows, columns).contiguous(), left, right, out=blend)
    if flip:
        blend.copy_(blend.flip(0))
    state = data["state"]
    state.mul_(decay).add_(blend.sum(0))
    moments = torch.stack([blend.mean(), blend.square().mean()]).expand(3, 2)[1]
    nothing = data["nothing"].t().t()[:, :]
    return {"blend": blend, "state": state[:], "moments": tuple(moments), "rest": [nothing, rows, name, decay]}
