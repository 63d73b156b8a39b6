"""NVIDIA's management library, which comes with the driver: open a GPU once and query it any number of times.

Called by ctypes, so it needs no package, and no context on the GPU.  Functions and types are those of nvml.h.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

from harness.gpu.gpu_nodes import GpuNode, find_driver_library

_LIBRARY = "libnvidia-ml.so.1"
CLOCK_SM, CLOCK_MEMORY = 1, 2
TEMPERATURE_GPU = 0
POLICY_THERMAL = 1
UNCORRECTED, SINCE_DRIVER = 1, 0
_INSUFFICIENT_SIZE = 7
_TEXT = 96


class NvmlMemory(ctypes.Structure):
    """nvmlMemory_t, in bytes; `used` includes memory that the driver reserves."""

    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


class NvmlMemoryV2(ctypes.Structure):
    """nvmlMemory_v2_t, in bytes; `used` does not include what the driver reserves."""

    _fields_ = (
        ("version", ctypes.c_uint), ("total", ctypes.c_ulonglong), ("reserved", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong),
    )  # fmt: skip

    def __init__(self) -> None:
        super().__init__(version=ctypes.sizeof(self) | 2 << 24)


class Utilization(ctypes.Structure):
    """nvmlUtilization_t, in percent of the last sample period."""

    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class Violation(ctypes.Structure):
    """nvmlViolationTime_t: the time of the query, in microseconds, and the total violation time, in nanoseconds."""

    _fields_ = (("reference_us", ctypes.c_ulonglong), ("violation_ns", ctypes.c_ulonglong))


class Nvml:
    """One GPU.  A failed query raises OSError; a function that the driver does not have raises AttributeError."""

    def __init__(self, gpu: GpuNode, root: Path = Path("/")) -> None:
        beside_cuda = root / find_driver_library(root) / _LIBRARY
        self._library = ctypes.CDLL(str(beside_cuda) if beside_cuda.exists() else _LIBRARY)
        _require(self._library.nvmlInit_v2())
        self._device = self._find_device(gpu)

    def _find_device(self, gpu: GpuNode) -> ctypes.c_void_p:
        """Find the GPU by its id, or without an id by the number of its node."""
        device, minor, count = ctypes.c_void_p(), ctypes.c_uint(), ctypes.c_uint()
        if gpu.id:
            _require(self._library.nvmlDeviceGetHandleByUUID(gpu.id.encode(), ctypes.byref(device)))
            return device
        _require(self._library.nvmlDeviceGetCount_v2(ctypes.byref(count)))
        for index in range(count.value):
            # It counts all of the machine's GPUs, also those that a container may not open.
            is_open = not self._library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(device))
            is_known = is_open and not self._library.nvmlDeviceGetMinorNumber(device, ctypes.byref(minor))
            if is_known and gpu.node == f"/dev/nvidia{minor.value}":
                return device
        raise OSError(f"NVML does not know {gpu.node}")

    def ask(self, function: str, answer: Any, *arguments: int) -> Any:
        """Call a function that writes its result into `answer`, its last argument; returns `answer`."""
        _require(getattr(self._library, function)(self._device, *arguments, ctypes.byref(answer)))
        return answer

    def number(self, function: str, *arguments: int) -> int:
        return int(self.ask(function, ctypes.c_uint(), *arguments).value)

    @property
    def name(self) -> str:
        text = ctypes.create_string_buffer(_TEXT)
        _require(self._library.nvmlDeviceGetName(self._device, text, _TEXT))
        return text.value.decode(errors="replace")

    @property
    def driver(self) -> str:
        text = ctypes.create_string_buffer(_TEXT)
        _require(self._library.nvmlSystemGetDriverVersion(text, _TEXT))
        return text.value.decode(errors="replace")

    @property
    def processes(self) -> int:
        """How many processes have a compute context on this GPU."""
        count = ctypes.c_uint(0)
        code = self._library.nvmlDeviceGetComputeRunningProcesses_v3(self._device, ctypes.byref(count), None)
        if code != _INSUFFICIENT_SIZE:  # the answer if there are processes, because we pass no buffer
            _require(code)
        return count.value


def _require(code: int) -> None:
    if code:
        raise OSError(f"NVML error {code}")
