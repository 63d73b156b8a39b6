#!POPCORN leaderboard scale
import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    x, factor = data
    output = torch.empty(x.shape, device="cuda")
    torch.mul(x, factor, out=output)
    return output
