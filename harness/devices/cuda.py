"""A GPU as the referee uses it: he makes inputs and knows answers there, in a process and a context of his own.

Between him and a player bytes go through host memory, as on a CPU (`cpu.write_memory`): that works behind all walls
and with every vendor.  What the player does with its device is in `inside`.  ROCm answers to the same names.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import time
from collections.abc import Iterator

import torch

from harness import gpu_facts
from harness.complaints import advise
from harness.devices import cpu
from harness.errors import JudgeError
from harness.gpu_nodes import assigned, find_gpus
from harness.inside import Sweep

_ANSWER_S = 60.0
"""Who has not added up a million ones by then hangs; a context of a player that ended may take seconds to go."""
_ONES = 1 << 20
_SWEEPS = 3
_PATIENCE_S = 0.1
"""A sweep is no longer waited for: whoever keeps the GPU from it, works there."""


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
    """Why nothing can be computed on the GPU any more; "" if something can.

    Tried on a thread of its own: nothing ends the wait for a GPU that hangs.
    """
    said: list[str] = []
    thread = threading.Thread(target=lambda: said.append(_find_wrong_sum()), daemon=True)
    thread.start()
    thread.join(_ANSWER_S)
    return said[0] if said else f"the GPU has not answered for {_ANSWER_S:g} s: {advise('it hangs')}"


def sweep_us() -> float:
    """Empty the L2 cache from a context that no player reaches; how long the quickest of three sweeps took.

    A GPU gives one context after another its turn.  Where nobody else wants one, a sweep takes as long as its bytes;
    where a player's kernel still runs, every sweep has to wait for its turn again.  Where contexts share a GPU in
    space (MPS, and AMD's queues), what leaves room for a sweep is not seen.
    """
    sweep = _sweep()
    sweep.release()
    return min(_time(sweep) for _ in range(_SWEEPS))


def find_meter() -> gpu_facts.Meter | None:
    """Of the one GPU that a referee uses."""
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


def _find_wrong_sum() -> str:
    try:
        found = float(torch.ones(_ONES, device="cuda").sum().item())
    except (RuntimeError, AssertionError) as error:
        return f"the GPU does not compute: {advise(error)}"
    return "" if found == _ONES else f"the GPU computes wrongly: {_ONES} ones make {found:g}; replace it"


def _find_absence() -> str:
    """Why torch has no GPU to compute on, by its own words; "" if it has."""
    if torch.cuda.is_available():
        return ""
    try:
        torch.cuda.init()  # type: ignore[no-untyped-call]
    except (RuntimeError, AssertionError) as error:
        return f"torch {torch.__version__} can't use this machine's GPU: {advise(error)}"
    return f"torch {torch.__version__} finds no GPU: {advise('No CUDA GPUs are available')}"
