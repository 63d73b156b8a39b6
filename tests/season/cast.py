"""The contents of a fictional season: logins that are clearly invented, machines, and kernels in several versions.

The files are not meant to run.  They look like submissions, so that pages have code and diffs to show.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from harness.records.judgement import Machine

_TITLE = """\
title: The Fictional Kernel Cup
description: |
  Eight kernels on five machines. Write a correct and fast one: each entry is timed alongside a fixed anchor,
  differences within the noise are ties, and a duel decides first place.
gpus:
"""
_MACHINES = {
    "CPU": "runs_on: ubuntu-24.04, bandwidth_gbs: 38, tflops: {float32: 0.9, float16: 0.5, int8: 1.2, int32: 0.9}",
    "T4": "runs_on: t4, bandwidth_gbs: 320, tflops: {float32: 8.1, float16: 65, int8: 130, int32: 8.1}",
    "A100": "runs_on: a100, bandwidth_gbs: 2039, tflops: {float32: 19.5, float16: 312, int8: 624, int32: 19}",
    "H100": "runs_on: h100, bandwidth_gbs: 3350, tflops: {float32: 67, float16: 989, int8: 1979, int32: 33}",
    "B200": "runs_on: b200, bandwidth_gbs: 8000, tflops: {float32: 80, float16: 2250, int8: 4500, int32: 40}",
}
"""The makers' peak figures, rounded; those of the CPU are typical of a server."""

GPUS = ("H100", "B200", "A100", "T4", "CPU")
LAUNCH_US = {"CPU": 2.0, "T4": 6.0}
"""The time to launch a kernel, in microseconds; on other GPUs about three."""

_DEVICES = {"CPU": "CPU", "T4": "Tesla T4", "A100": "A100-SXM4-80GB", "H100": "H100 80GB HBM3", "B200": "B200"}
_MOODS = "amber brisk calm dusky eager fabled gentle hazy idle jolly keen lunar mellow nimble opal placid quiet rosy silver tidal"  # fmt: skip
_BEASTS = "badger bittern curlew dormouse egret ferret gannet heron ibex jackdaw kestrel lapwing marten newt otter plover"  # fmt: skip


def settings_yml(gpus: Sequence[str]) -> str:
    """The `.github/pullrank.yml` of a season on these GPUs."""
    return _TITLE + "".join(f"  {gpu}: {{{machine}}}\n" for gpu, machine in _MACHINES.items() if gpu in gpus)


def logins(count: int, dice: random.Random) -> list[str]:
    """Distinct logins: `quiet-otter`, and `quiet-otter-2` when all are taken."""
    names = [f"{mood}-{beast}" for mood, beast in product(_MOODS.split(), _BEASTS.split())]
    dice.shuffle(names)
    return [
        names[index % len(names)] + (f"-{index // len(names) + 1}" * (index >= len(names))) for index in range(count)
    ]


_GPU_SOFTWARE = {"CUDA": "13.0", "CUTLASS DSL": "4.3.0", "nvcc": "13.0"}


def machine_of(gpu: str, dice: random.Random) -> Machine:
    """The machine of a GPU's boards, at one moment."""
    on_gpu = gpu != "CPU"
    return Machine(
        device=f"NVIDIA {_DEVICES[gpu]}" if on_gpu else "CPU",
        cpu="AMD EPYC 9354" if on_gpu else "AMD EPYC 7763",
        cores=32 if on_gpu else 4,
        memory_gib=503.5 if on_gpu else 15.6,
        os="Linux 6.8",
        python="3.12.7",
        torch="2.13.0",
        software=(_GPU_SOFTWARE if on_gpu else {}) | {"NumPy": "2.4.6", "Triton": "3.7.1", "g++": "13.3.0"},
        driver="580.65.06" if on_gpu else None,
        clock_mhz=float(*dice.choices((1710, 1950, 1980), (4, 40, 56))) if on_gpu else None,
        temperature_c=float(dice.randint(41, 68)) if on_gpu else None,
        quiet=dice.random() > 0.08,
    )


@dataclass(frozen=True, kw_only=True)
class MadeUpFile:
    """One version of an author's file; `quality` is from 0 to 1, the best possible."""

    login: str
    user_id: int
    number: int
    text: str
    language: str
    quality: float

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()


class MadeUpKernel:
    """An author's file for one task; each version differs a little from the one before, so that diffs look real."""

    def __init__(self, task: str, login: str, dice: random.Random) -> None:
        self._task, self._login, self._dice = task, login, dice
        self.language = dice.choices(("Triton", "CUDA C++ inline", "PyTorch"), (6, 3, 2))[0]
        self._block, self._warps, self._stages = 64, 2, 1
        self._notes: list[str] = []

    def next_version(self) -> str:
        """The text of the file's next version."""
        dice = self._dice
        self._block = dice.choice((64, 128, 256, 512, 1024))
        self._warps, self._stages = dice.choice((2, 4, 8, 16)), dice.choice((1, 2, 3, 4))
        self._notes = [*self._notes, dice.choice(_IDEAS)][-5:]
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        yield f"#!POPCORN leaderboard {self._task}"
        yield f"# {self._login}: a made-up submission that only looks like a kernel."
        yield from (f"# - {note}" for note in self._notes)
        yield "import torch"
        if self.language == "Triton":
            yield from ("import triton", "import triton.language as tl", "")
            yield from _TRITON.format(block=self._block, warps=self._warps, stages=self._stages).split("\n")
        else:
            yield from _TORCH.format(block=self._block, unroll=self._stages, threads=32 * self._warps).split("\n")


_IDEAS = (
    "two rows a program: the second load hides behind the first",
    "vectorised loads, sixteen bytes at a time",
    "keep the partial sums in registers, write once",
    "evict_first on what is read once",
    "one pass instead of two: the maximum is corrected on the way",
    "persistent programs: as many as there are multiprocessors",
    "swizzle the order of tiles, so that neighbours share the cache",
    "mask only the last block",
    "prefetch the next tile while this one is in use",
    "a warm-up of the tuner for every shape in the statement",
)

_TRITON = '''
BLOCK = {block}


@triton.jit
def _kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0)
    y = tl.load(y_ptr + offsets, mask=mask, other=0.0)
    tl.store(out_ptr + offsets, x + y, mask=mask)


def custom_kernel(data):
    """Launch one program for each block of the output."""
    x, y = data
    out = torch.empty_like(x)
    n = out.numel()
    _kernel[(triton.cdiv(n, BLOCK),)](x, y, out, n, BLOCK=BLOCK, num_warps={warps}, num_stages={stages})
    return out'''

_TORCH = '''
TILE, UNROLL, THREADS = {block}, {unroll}, {threads}


@torch.compile(mode="max-autotune-no-cudagraphs")
def _fused(x, y):
    return torch.add(x, y)


def custom_kernel(data):
    """Tile by tile, so that what is written is still in the cache."""
    x, y = data
    out = torch.empty_like(x)
    for start in range(0, x.shape[0], TILE * UNROLL):
        rows = slice(start, start + TILE * UNROLL)
        out[rows] = _fused(x[rows], y[rows])
    return out'''
