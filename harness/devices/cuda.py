"""A GPU as the referee uses it: he makes inputs and knows answers there, in a process and a context of his own.

Between him and a player bytes go through host memory, as on a CPU (`cpu.write_memory`): that works behind all walls
and with every vendor.  What the player does with its device is in `inside`.  ROCm answers to the same names.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import torch

from harness.devices import cpu
from harness.errors import JudgeError
from harness.gpu_nodes import assigned, find_gpus


@contextlib.contextmanager
def prepared() -> Iterator[None]:
    """This process as the referee's, in the block.

    Raises:
        JudgeError: torch finds no GPU, or cannot compute on it.
    """
    _see_one_gpu()
    if trouble := _find_absence() or find_trouble():
        raise JudgeError(trouble)
    with cpu.prepared():
        yield


def _see_one_gpu() -> None:
    """The players' GPU is the referee's, too.  Until torch has looked for GPUs, its libraries heed these variables."""
    if (gpus := assigned(find_gpus(), os.environ)) and (first := gpus[0]).id:
        os.environ["ROCR_VISIBLE_DEVICES" if first.vendor == "amd" else "CUDA_VISIBLE_DEVICES"] = first.id


def find_trouble() -> str:
    """Why nothing can be computed on the GPU any more; "" if something can: a small sum, there and back."""
    try:
        found = float(torch.ones(1 << 20, device="cuda").sum().item())
    except (RuntimeError, AssertionError) as error:
        return f"the GPU does not compute: {str(error).splitlines()[0][:300]}; see the kernel's log, and reset it"
    return "" if found == 1 << 20 else f"the GPU computes wrongly: {1 << 20} ones make {found:g}; replace it"


def _find_absence() -> str:
    if torch.cuda.is_available():
        return ""
    if torch.version.cuda is None and torch.version.hip is None:
        return f"torch {torch.__version__} is built for CPUs only; install one for this machine's GPU"
    return (
        f"torch {torch.__version__} finds no GPU: is the driver loaded, and recent enough for CUDA "
        f"{torch.version.cuda or torch.version.hip}? `nvidia-smi` (or `rocminfo`) says what the driver sees"
    )
