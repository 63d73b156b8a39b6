"""The CPU: copy bytes directly into and out of the memory of the stopped player.

`process_vm_writev` and `process_vm_readv` need no memory shared with the player, which it could watch or shrink while
we use it.  A bad address makes the call fail; it never crashes the referee.

Another core writes fresh inputs for every call, so they were never in the private caches of the player's core.  To
flush the shared cache too would cost 10 ms a call and evict the interpreter.  A null call would then take 400 µs
instead of 50, time that we would have to subtract and that a cheat could gain.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import time
from collections.abc import Iterator

import torch

_libc = ctypes.CDLL(None, use_errno=True)
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4
_LARGE_BYTES = 256 << 20
"""Freed memory returns to the kernel if the inputs of a case are larger than this.  Kept, it would leave holes that
nothing else fills: a case with 4 GB of inputs and outputs used up 23 GB."""
_is_prepared = _keeps = False
_bench = torch.zeros(1 << 16, dtype=torch.uint8)


class _IoVec(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


for _name in ("process_vm_readv", "process_vm_writev"):
    _function = getattr(_libc, _name)
    _function.restype = ctypes.c_ssize_t
    _function.argtypes = (
        ctypes.c_int, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_ulong,
    )  # fmt: skip


def write_memory(pid: int, address: int, source: int, length: int) -> None:
    """Copy `length` bytes from our memory at `source` to the player's at `address`.

    Raises:
        OSError: the player has no such memory, or may not write there.
    """
    _move(_libc.process_vm_writev, pid, address, source, length)


def read_memory(pid: int, address: int, target: int, length: int) -> None:
    """Copy `length` bytes from the player's memory at `address` to ours at `target`.

    Raises:
        OSError: the player has no such memory, or may not read there.
    """
    _move(_libc.process_vm_readv, pid, address, target, length)


def _move(call: ctypes._NamedFuncPointer, pid: int, remote: int, local: int, length: int) -> None:
    done = 0
    while done < length:
        ours, theirs = _IoVec(local + done, length - done), _IoVec(remote + done, length - done)
        moved = call(pid, ctypes.byref(ours), 1, ctypes.byref(theirs), 1, 0)
        if moved <= 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        done += moved


@contextlib.contextmanager
def prepared(_gpus: int = 0) -> Iterator[None]:
    """Prepare this process as the referee's, for the block.

    The referee has one core, so a second torch thread would only wait for the first.  Keep freed memory in the process:
    inputs and outputs have the same sizes in each call, and the kernel clears every page that it hands out.
    """
    global _is_prepared  # noqa: PLW0603
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    _is_prepared = True
    prepare_for(0)
    try:
        yield
    finally:
        _is_prepared = False
        prepare_for(0)
        torch.set_num_threads(before)


def prepare_for(inputs_bytes: int) -> None:
    """Keep freed memory in a prepared process, unless the inputs of the case that is played now are large."""
    keep = _is_prepared and inputs_bytes <= _LARGE_BYTES
    if keep is not _keeps:
        _keep_freed_memory(keep)


def find_trouble() -> str:
    """Always "": a CPU that runs this works."""
    return ""


def sweep_us() -> float:
    """In place of a GPU's sweep: the time of a small piece of work, in microseconds.  Flushes nothing (see above)."""
    start = time.perf_counter()
    _bench.add_(1)
    return (time.perf_counter() - start) * 1e6


def find_meter() -> None:
    """Always None: `harness.referee.machine` measures how busy the machine is."""


def _keep_freed_memory(keep: bool) -> None:
    global _keeps  # noqa: PLW0603
    _keeps = keep
    if mallopt := getattr(_libc, "mallopt", None):  # only glibc has it
        mallopt(_M_MMAP_MAX, 0 if keep else 65536)
        mallopt(_M_TRIM_THRESHOLD, 2**31 - 1 if keep else 128 << 10)
        _libc.malloc_trim(0)
