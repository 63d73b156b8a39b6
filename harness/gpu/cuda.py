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

from harness.gpu import cpu, gpu_facts
from harness.gpu.gpu_errors import advise
from harness.gpu.gpu_nodes import assigned, find_gpus
from harness.inside.gpu_staging import Sweep
from harness.records.errors import JudgeError

_ANSWER_S = 60.0
"""Who has not added up a million ones by then hangs; a context of a player that ended may take seconds to go."""
_ONES = 1 << 20
_SWEEPS = 3
_PATIENCE_S = 0.1
"""A sweep is no longer waited for: whoever keeps the GPU from it, works there."""


@contextlib.contextmanager
def prepared(gpus: int = 1) -> Iterator[None]:
    """This process as the referee's, in the block.

    Raises:
        JudgeError: torch finds no GPU, or cannot compute on one of so many.
    """
    _see(gpus)
    if trouble := _find_absence() or find_trouble(gpus):
        raise JudgeError(trouble)
    with cpu.prepared():
        yield


def _see(count: int) -> None:
    """The players' GPUs are the referee's, too.  Until torch has looked for any, its libraries heed these variables."""
    gpus = assigned(find_gpus(), os.environ)[:count]
    if gpus and all(gpu.id for gpu in gpus):
        name = "ROCR_VISIBLE_DEVICES" if gpus[0].vendor == "amd" else "CUDA_VISIBLE_DEVICES"
        os.environ[name] = ",".join(gpu.id for gpu in gpus)


def find_trouble(gpus: int = 1) -> str:
    """Why nothing can be computed on one of so many GPUs any more; "" if something can, on each of them.

    Tried on a thread of its own: nothing ends the wait for a GPU that hangs.
    """
    said: list[str] = []
    thread = threading.Thread(target=lambda: said.append(_find_wrong_sum(gpus)), daemon=True)
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


def _find_wrong_sum(gpus: int) -> str:
    for number in range(gpus):
        which = "the GPU" if gpus == 1 else f"GPU {number + 1} of the {gpus}"
        try:
            found = float(torch.ones(_ONES, device=f"cuda:{number}").sum().item())
        except (RuntimeError, AssertionError) as error:
            return f"{which} does not compute: {advise(error)}"
        if found != _ONES:
            return f"{which} computes wrongly: {_ONES} ones make {found:g}; replace it"
    return ""


def _find_absence() -> str:
    """Why torch has no GPU to compute on, by its own words; "" if it has."""
    if torch.cuda.is_available():
        return ""
    try:
        torch.cuda.init()  # type: ignore[no-untyped-call]
    except (RuntimeError, AssertionError) as error:
        return f"torch {torch.__version__} can't use this machine's GPU: {advise(error)}"
    return f"torch {torch.__version__} finds no GPU: {advise('No CUDA GPUs are available')}"
