"""Change torch's settings: threads, default dtype and device, determinism, gradients off, modes that are never left."""

import torch

torch.set_num_interop_threads(2)
torch.set_num_threads(2)
torch.set_default_dtype(torch.float64)
torch.set_default_device("cpu")
torch.use_deterministic_algorithms(True)
torch.set_flush_denormal(True)
torch.set_float32_matmul_precision("high")
torch.set_printoptions(precision=10)
torch.manual_seed(0)
torch.set_grad_enabled(False)
torch.inference_mode().__enter__()


@torch.no_grad()
def custom_kernel(data):
    values, output, scale = data
    torch.set_num_threads(1)
    with torch.autocast("cpu"), torch.random.fork_rng():
        permutation = torch.randperm(values.numel())
        waiting = torch.jit.fork(torch.sort, values[permutation])
    return torch.mul(torch.jit.wait(waiting)[0], scale, out=output)
