"""The CPU: bytes go straight into and out of the memory of the stopped player.

`process_vm_writev` and `process_vm_readv` need no memory shared with the player: nothing to peek at, nothing to
shrink under us.  A bad address is an error of theirs, never a crash of ours.
"""

from __future__ import annotations

import ctypes
import os

import torch

_libc = ctypes.CDLL(None, use_errno=True)


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


def _move(call: ctypes._NamedFuncPointer, pid: int, remote: int, local: int, length: int) -> None:  # type: ignore[name-defined]
    done = 0
    while done < length:
        ours, theirs = _IoVec(local + done, length - done), _IoVec(remote + done, length - done)
        moved = call(pid, ctypes.byref(ours), 1, ctypes.byref(theirs), 1, 0)
        if moved <= 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        done += moved


def cache_bytes() -> int:
    """Size of the last-level cache; 32 MiB where the machine does not tell."""
    for index in range(4, 0, -1):
        path = f"/sys/devices/system/cpu/cpu0/cache/index{index}/size"
        if os.path.exists(path):
            with open(path, encoding="ascii") as file:
                text = file.read().strip()
            return int(text.rstrip("KMG")) << {"K": 10, "M": 20, "G": 30}.get(text[-1], 0)
    return 32 << 20


class CacheFlusher:
    """Pushes everything else out of the shared last-level cache by reading more than it holds."""

    def __init__(self) -> None:
        self.ballast = torch.zeros(min(2 * cache_bytes(), 512 << 20) // 8, dtype=torch.int64)

    def flush(self) -> None:
        self.ballast.sum()
