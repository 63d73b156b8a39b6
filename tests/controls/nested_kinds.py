"""Return every kind of container and leaf: named tuples, ordered dicts, parameters, numpy's floats, 0-dim, empty.

Task: blend
"""

from collections import OrderedDict, namedtuple

import numpy as np
import torch

Moments = namedtuple("Moments", "mean square")


def custom_kernel(data):
    left, right = data["matrices"]
    decay, flip, name, _ = data["settings"]
    total = left * right + data["bias"] + data["shift"]
    total = total.flip(0) if flip else total
    values = total.numpy()
    moments = Moments(torch.tensor(values.mean()), torch.from_numpy(np.asarray(np.square(values).mean())))
    answer = OrderedDict(blend=torch.nn.Parameter(total))
    answer["state"] = data["state"].mul_(decay).add_(total.sum(0))
    answer["moments"] = moments
    answer["rest"] = (torch.empty(3, 0, len(left))[1:].view(0, left.shape[1])[:0], total.shape[0], name, np.float64(decay))
    return answer
