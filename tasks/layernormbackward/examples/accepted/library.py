#!POPCORN leaderboard layernormbackward
"""One operation of PyTorch after the other.

Its own backward pass of `layer_norm` is not accepted on a CPU: it subtracts the mean after a multiplication.
"""

from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    dy, x, weight, mean, rstd = data
    normal = (x - mean[:, None]).mul_(rstd[:, None])
    scaled = dy * weight
    along = (scaled * normal).mean(dim=1, keepdim=True)
    dweight, dbias = (dy * normal).sum(dim=0), dy.sum(dim=0)
    dx = scaled.sub_(scaled.mean(dim=1, keepdim=True)).sub_(normal.mul_(along)).mul_(rstd[:, None])
    return {"dx": dx, "dweight": dweight, "dbias": dbias}
