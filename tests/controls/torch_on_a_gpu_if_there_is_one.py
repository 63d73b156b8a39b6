"""Use a GPU, Triton or bfloat16 if they are there, and fall back if not."""

import torch

try:
    import triton
except ImportError:
    triton = None

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
if torch.cuda.is_available():
    stream = torch.cuda.Stream()
torch.backends.cudnn.benchmark = True
torch.backends.cuda.matmul.allow_tf32 = True


def custom_kernel(data):
    values, output, scale = data
    ordered = values.to(device, non_blocking=True).sort().values
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return torch.mul(ordered.cpu(), scale, out=output)
