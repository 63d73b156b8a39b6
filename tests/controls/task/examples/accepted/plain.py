def custom_kernel(data):
    left, right = data["matrices"]
    decay, flip, name, _ = data["settings"]
    blend = left * right + data["bias"] + data["shift"]
    if flip:
        blend = blend.flip(0)
    state = data["state"].mul_(decay).add_(blend.sum(0))
    moments = (blend.mean(), blend.square().mean())
    return {"blend": blend, "state": state, "moments": moments, "rest": [data["nothing"], len(blend), name, decay]}
