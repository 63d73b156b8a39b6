"""How much of a GPU's memory is in use, whoever holds it: from its driver, at any time, without a context on it.

    NVIDIA   libnvidia-ml.so.1, which comes with the driver
    AMD      /sys/class/drm/renderD128/device/mem_info_vram_used and _total

What single processes hold is not asked: in a container the driver names them by numbers that mean nothing there, if it
names them at all.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness.gpu_nodes import Gpu, find_driver_library


@dataclass(frozen=True, kw_only=True)
class CardMemory:
    """In bytes."""

    total: int
    used: int

    @property
    def free(self) -> int:
        return self.total - self.used


Card = Callable[[], CardMemory]
"""Ask one GPU.  Raises OSError if it does not answer any more."""


def find_card(gpu: Gpu, root: Path = Path("/")) -> Card | None:
    """How to ask this GPU; None if nobody here can."""
    try:
        card = _amd(gpu, root) if gpu.vendor == "amd" else _nvidia(gpu, root)
        card()
    except (OSError, AttributeError, ValueError):  # no such library, file or function
        return None
    return card


def _amd(gpu: Gpu, root: Path) -> Card:
    folder = root / "sys/class/drm" / Path(gpu.node).name / "device"

    def ask(what: str) -> int:
        return int((folder / f"mem_info_vram_{what}").read_text())

    return lambda: CardMemory(total=ask("total"), used=ask("used"))


class _Memory(ctypes.Structure):
    """NVML's nvmlMemory_t, whose `used` counts what the driver keeps for itself, too."""

    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


def _nvidia(gpu: Gpu, root: Path) -> Card:
    folder = find_driver_library(root)
    nvml = ctypes.CDLL(str(root / folder / "libnvidia-ml.so.1") if folder else "libnvidia-ml.so.1")
    _require(nvml.nvmlInit_v2())
    device = _device_of(nvml, gpu)

    def read() -> CardMemory:
        memory = _Memory()
        _require(nvml.nvmlDeviceGetMemoryInfo(device, ctypes.byref(memory)))
        return CardMemory(total=memory.total, used=memory.used)

    return read


def _device_of(nvml: ctypes.CDLL, gpu: Gpu) -> ctypes.c_void_p:
    """By its id; without one, by the number of its node."""
    device, minor = ctypes.c_void_p(), ctypes.c_uint()
    if gpu.id:
        _require(nvml.nvmlDeviceGetHandleByUUID(gpu.id.encode(), ctypes.byref(device)))
        return device
    count = ctypes.c_uint()
    _require(nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)))
    for index in range(count.value):
        _require(nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(device)))
        _require(nvml.nvmlDeviceGetMinorNumber(device, ctypes.byref(minor)))
        if gpu.node == f"/dev/nvidia{minor.value}":
            return device
    raise OSError(f"NVML knows no {gpu.node}")


def _require(code: int) -> None:
    if code:
        raise OSError(f"NVML error {code}")
