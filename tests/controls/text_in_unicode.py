"""Begin with a byte order mark, use names in Greek and Japanese, and compute with the names: ünïcödé ✓."""

import torch

π = 3.141592653589793
名前 = {"σειρά": torch.sort, "🔥": "🧊"}


class Größe(int):
    pass


def custom_kernel(données):
    values, выход, scale = données
    assert "🔥" in 名前 and π > Größe(3)
    print("sorted ✓", 名前["🔥"], "\u202e\u2066", "é" * 1000)
    return torch.mul(名前["σειρά"](values).values, scale, out=выход)
