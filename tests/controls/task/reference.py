import torch
from task import input_t, output_t

from harness.checker import compare


def generate_input(rows: int, columns: int, seed: int) -> input_t:
    generator = torch.Generator().manual_seed(seed)
    draw = {"generator": generator, "dtype": torch.float64}
    return {
        "matrices": (torch.randn(columns, rows, **draw).t(), torch.randn(rows, 2 * columns, **draw)[:, ::2]),
        "bias": torch.randn(columns, **draw).expand(rows, columns),
        "state": torch.randn(columns, **draw),
        "shift": torch.randn((), **draw),
        "nothing": torch.empty(0, columns),
        "settings": [float(torch.rand(1, **draw)), bool(seed % 2), f"número {seed}", None],
    }


def ref_kernel(data: input_t) -> output_t:
    left, right = data["matrices"]
    decay, flip, name, _ = data["settings"]
    blend = left * right + data["bias"] + data["shift"]
    if flip:
        blend = blend.flip(0)
    state = data["state"].mul_(decay).add_(blend.sum(0))
    return {
        "blend": blend,
        "state": state,
        "moments": (blend.mean(), blend.square().mean()),
        "rest": [data["nothing"], blend.shape[0], name, decay],
    }


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    return compare(output, ref_kernel(data), rtol=1e-9, atol=1e-9)
