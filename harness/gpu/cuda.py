"""A GPU as the referee uses it: it makes inputs and reference answers there, in its own process and context.

How inputs and outputs pass between referee and player is in `harness/referee`: `sealed` for NVIDIA's GPUs, `staged` for
AMD's.  torch uses the same names for ROCm.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import time
from collections.abc import Iterator

import torch

from harness.gpu import cpu, gpu_facts
from harness.gpu.gpu_errors import advise
from harness.gpu.gpu_nodes import CHOOSING, assigned, find_gpus
from harness.inside.gpu_staging import Sweep
from harness.records.errors import JudgeError

_ANSWER_S = 60.0
"""A GPU that needs longer to sum a million ones hangs.  The context of a killed player may take seconds to go."""
_ONES = 1 << 20
_SWEEPS = 3
_PATIENCE_S = 0.1
"""The longest wait for a sweep: if it takes longer, something else is running on the GPU."""


@contextlib.contextmanager
def prepared(gpus: int = 1) -> Iterator[None]:
    """Prepare this process as the referee's, for the block.

    Raises:
        JudgeError: torch finds no GPU, or one of the `gpus` does not work.
    """
    _select_gpus(gpus)
    if trouble := _find_absence() or find_trouble(gpus):
        raise JudgeError(trouble)
    with cpu.prepared():
        yield


def _select_gpus(count: int) -> None:
    """Select the players' GPUs for the referee.  The libraries read these variables when torch first looks for GPUs."""
    os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")  # as the kernel numbers them, not the fastest first
    gpus = assigned(find_gpus(), os.environ)[:count]
    if gpus and all(gpu.id for gpu in gpus):
        for name in CHOOSING:  # HIP's would choose among these GPUs once more
            os.environ.pop(name, None)
        name = "ROCR_VISIBLE_DEVICES" if gpus[0].vendor == "amd" else "CUDA_VISIBLE_DEVICES"
        os.environ[name] = ",".join(gpu.id for gpu in gpus)


def find_trouble(gpus: int = 1) -> str:
    """Why one of these GPUs no longer works; "" if all of them work.

    Tries them in a separate thread, because nothing can interrupt the wait for a GPU that hangs.
    """
    said: list[str] = []
    thread = threading.Thread(target=lambda: said.append(_find_wrong_sum(gpus)), daemon=True)
    thread.start()
    thread.join(_ANSWER_S)
    return said[0] if said else f"the GPU has not answered for {_ANSWER_S:g} s: {advise('it hangs')}"


def sweep_us() -> float:
    """Flush an AMD GPU's caches from a context that no player reaches; returns the fastest of three sweeps, in µs.

    Without other work, a sweep takes only the time for its bytes.  While a player's kernel still runs, the sweep waits
    for it or shares the GPU with it.  AMD's queues run side by side, so this does not detect a kernel that leaves room
    for the sweep.
    """
    sweep = _sweep()
    return min(_time(sweep) for _ in range(_SWEEPS))


def find_meter() -> gpu_facts.Meter | None:
    """A meter for the first assigned GPU, the one that the referee uses."""
    return gpu_facts.find_meter(assigned(find_gpus(), os.environ)[0])


@functools.cache
def _sweep() -> Sweep:
    return Sweep()


def _time(sweep: Sweep) -> float:
    done = torch.cuda.Event()  # type: ignore[no-untyped-call]
    start = time.perf_counter()
    sweep.launch()
    done.record()
    while not done.query() and time.perf_counter() - start < _PATIENCE_S:  # type: ignore[no-untyped-call]
        pass
    return (time.perf_counter() - start) * 1e6


def _find_wrong_sum(gpus: int) -> str:
    for number in range(gpus):
        which = "the GPU" if gpus == 1 else f"GPU {number + 1} of the {gpus}"
        try:
            found = float(torch.ones(_ONES, device=f"cuda:{number}").sum().item())
        except (RuntimeError, AssertionError) as error:
            return f"{which} does not work: {advise(error)}"
        if found != _ONES:
            return f"{which} computes wrong results: {_ONES} ones sum to {found:g}; replace it"
    return ""


def _find_absence() -> str:
    """Why torch can't use a GPU, in torch's own words; "" if it can."""
    if torch.cuda.is_available():
        return ""
    try:
        torch.cuda.init()  # type: ignore[no-untyped-call]
    except (RuntimeError, AssertionError) as error:
        return f"torch {torch.__version__} can't use this machine's GPU: {advise(error)}"
    return f"torch {torch.__version__} finds no GPU: {advise('No CUDA GPUs are available')}"
