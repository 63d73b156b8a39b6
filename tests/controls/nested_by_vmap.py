"""Transform with torch.func.vmap and einsum under inference mode, and return inference tensors.

Task: blend
"""

import torch


@torch.inference_mode()
def custom_kernel(data):
    left, right = data["matrices"]
    decay, flip, name, _ = data["settings"]
    blend = torch.func.vmap(lambda a, b, c: a * b + c + data["shift"])(left, right, data["bias"])
    blend = blend.flip(0) if flip else blend
    state = torch.einsum("rc->c", blend) + data["state"] * decay
    moments = [blend.mean(), torch.einsum("rc,rc->", blend, blend) / blend.numel()]
    return {"blend": blend, "state": state, "moments": moments, "rest": [data["nothing"], len(blend), name, decay]}
