"""NVIDIA's driver API, as far as referee and player share memory through it: contexts, memory, kernels, events.

    driver = Driver()                            the first visible GPU, in its primary context, which torch uses, too
    driver.call("cuCtxSynchronize")              any function of the API; raises DriverError

Sizes are in bytes.  Addresses are device addresses.  The functions are described in NVIDIA's *CUDA Driver API*.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn, TypeVar

LIBRARY = "libcuda.so.1"

_PINNED, _DEVICE, _DESCRIPTOR, _READ_WRITE = 1, 1, 1, 3
_COMPUTE_MODE, _L2_BYTES, _VIRTUAL_MEMORY, _DESCRIPTORS, _MPS = 20, 38, 102, 103, 133
"""Attributes of a device; the last three: whether it has virtual memory, descriptors of it, and MPS running."""
_MAJOR, _MINOR, _CLEARS_MEMORY = 75, 76, (7, 5)
"""Attributes of a device for its compute capability; the lowest one for which the driver clears memory."""
_WAITS_IN_STREAMS = 122
"""Attribute of a device: whether streams can wait for values of 64 bits in memory; then they can for 32 bits, too."""
_PERSISTING_LINES = 8
"""The lowest compute capability at which kernels can ask for lines that stay in the L2 cache."""
_ANY_NUMBER_OF_CONTEXTS = 0
"""The compute mode `Default`."""
_NON_BLOCKING = 1
_EQUAL = 1
_NOT_READY = 600
_T = TypeVar("_T", bound="ctypes._SimpleCData[Any]")


class DriverError(Exception):
    """A function of the driver has failed."""


class _Location(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int), ("id", ctypes.c_int))


class _Flags(ctypes.Structure):
    _fields_ = (
        ("compression", ctypes.c_ubyte), ("rdma", ctypes.c_ubyte), ("usage", ctypes.c_ushort),
        ("reserved", ctypes.c_ubyte * 4),
    )  # fmt: skip


class _Properties(ctypes.Structure):
    """CUmemAllocationProp."""

    _fields_ = (
        ("type", ctypes.c_int), ("handles", ctypes.c_int), ("location", _Location), ("win32", ctypes.c_void_p),
        ("flags", _Flags),
    )  # fmt: skip


class _Access(ctypes.Structure):
    """CUmemAccessDesc."""

    _fields_ = (("location", _Location), ("flags", ctypes.c_int))


@dataclass(frozen=True)
class Mapping:
    """Memory of the device, mapped into this process's address space."""

    address: int
    size: int


class Driver:
    """The driver, with the first visible GPU's primary context current in this thread; use it in this thread only.

    `held_bytes` is the memory of GPUs that all drivers of this process have allocated.

    Raises:
        OSError: there is no such library.
        DriverError: there is no usable GPU.
    """

    held_bytes: ClassVar[int] = 0

    def __init__(self, library: str = LIBRARY) -> None:
        self._library = ctypes.CDLL(library)
        self._own: dict[int, int] = {}
        self.call("cuInit", 0)
        self.device = self._ask("cuDeviceGet", ctypes.c_int(), 0).value
        self._context = self._ask("cuDevicePrimaryCtxRetain", ctypes.c_void_p(), self.device)
        self.make_current()

    def make_current(self) -> None:
        """Use the context in this thread."""
        self.call("cuCtxSetCurrent", self._context)

    def call(self, function: str, *arguments: object) -> None:
        """Call a function that returns a CUresult.

        Pass everything but None, bytes and integers of 32 bits as ctypes objects.
        """
        if code := getattr(self._library, function)(*arguments):
            self._fail(function, code)

    def _ask(self, function: str, answer: _T, *arguments: object) -> _T:
        """Call a function that writes its result into `answer`, its first argument; returns `answer`."""
        self.call(function, ctypes.byref(answer), *arguments)
        return answer

    def _fail(self, function: str, code: int) -> NoReturn:
        """Raise the error with its name and its meaning, as the runtime words it, for `gpu_errors`."""
        name, meaning = self._describe("cuGetErrorName", code), self._describe("cuGetErrorString", code)
        raise DriverError(f"{function}: {name} ({meaning})" if meaning else f"{function}: error {code}")

    def _describe(self, function: str, code: int) -> str:
        """A description of an error; "" if the driver does not know it."""
        text = ctypes.c_char_p()
        getattr(self._library, function)(code, ctypes.byref(text))
        return (text.value or b"").decode(errors="replace")

    # Memory.

    def find_obstacle(self) -> str:
        """Why this GPU's memory cannot be shared for one call at a time; "" if it can."""
        if self._has_mps():
            return "the CUDA Multi-Process Service is running: `echo quit | nvidia-cuda-mps-control` stops it"
        if self._attribute(_COMPUTE_MODE) != _ANY_NUMBER_OF_CONTEXTS:
            return "its compute mode keeps other contexts out: as root, `nvidia-smi -c 0` sets it to Default"
        if (self._attribute(_MAJOR), self._attribute(_MINOR)) < _CLEARS_MEMORY:
            return "it does not clear the memory that a process has freed: NVIDIA's GPUs do so since Turing (7.5)"
        if not all(self._attribute(one) for one in (_VIRTUAL_MEMORY, _DESCRIPTORS)):
            return (
                "its driver cannot share memory by file descriptors, as in WSL and in some virtual machines: judge "
                "where Linux has the GPU itself, with a newer driver"
            )
        return ""

    def _has_mps(self) -> bool:
        try:
            return bool(self._attribute(_MPS))
        except DriverError:  # older than CUDA 12.3
            return os.path.exists(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps") + "/control")  # noqa: S108

    @functools.cached_property
    def can_wait(self) -> bool:
        """Whether `wait_for_value` works, and the host can launch more work behind it.

        It cannot if launches are synchronous, as CUDA_LAUNCH_BLOCKING makes them.
        """
        if os.environ.get("CUDA_LAUNCH_BLOCKING", "0") not in ("", "0"):
            return False
        try:
            return bool(self._attribute(_WAITS_IN_STREAMS))
        except DriverError:  # older than CUDA 12
            return False

    def reset_persisting_lines(self) -> None:
        """Let all lines of the L2 cache be replaced, whatever kernels have asked for."""
        if self._attribute(_MAJOR) >= _PERSISTING_LINES:
            self.call("cuCtxResetPersistingL2Cache")

    @property
    def cache_bytes(self) -> int:
        """The size of the L2 cache."""
        return self._attribute(_L2_BYTES)

    def _attribute(self, number: int) -> int:
        return self._ask("cuDeviceGetAttribute", ctypes.c_int(), number, self.device).value

    def granularity(self) -> int:
        """Sizes of shared memory are multiples of this."""
        properties = ctypes.byref(self._properties())
        return self._ask("cuMemGetAllocationGranularity", ctypes.c_size_t(), properties, 0).value

    def share(self, size: int) -> tuple[Mapping, int]:
        """Allocate and map memory; return it with a file descriptor, by which another process can map it, too."""
        unit = self.granularity()
        size = max(1, -(-size // unit)) * unit
        properties = ctypes.byref(self._properties())
        length, no_flags = ctypes.c_size_t(size), ctypes.c_ulonglong(0)
        handle = self._ask("cuMemCreate", ctypes.c_ulonglong(), length, properties, no_flags)
        with contextlib.ExitStack() as undo:
            with self._released(handle):  # the mapping keeps the memory
                mapping = self._map(handle, size)
                undo.callback(self.unmap, mapping)
                descriptor = self._ask(
                    "cuMemExportToShareableHandle", ctypes.c_int(-1), handle, _DESCRIPTOR, no_flags
                ).value
            os.set_inheritable(descriptor, False)
            undo.pop_all()
        self._note(mapping)
        return mapping, descriptor

    def open(self, descriptor: int, size: int) -> Mapping:
        """Map memory that another process has shared.  The descriptor may be closed afterwards."""
        shared = ctypes.c_void_p(descriptor)
        handle = self._ask("cuMemImportFromShareableHandle", ctypes.c_ulonglong(), shared, _DESCRIPTOR)
        with self._released(handle):
            return self._map(handle, size)

    @contextlib.contextmanager
    def _released(self, handle: ctypes.c_ulonglong) -> Iterator[None]:
        """Release a handle at the end of the block; an error in the block takes precedence over one of the release."""
        try:
            yield
        except BaseException:
            with contextlib.suppress(DriverError):
                self.call("cuMemRelease", handle)
            raise
        self.call("cuMemRelease", handle)

    def _map(self, handle: ctypes.c_ulonglong, size: int) -> Mapping:
        length, none, no_flags = ctypes.c_size_t(size), ctypes.c_size_t(0), ctypes.c_ulonglong(0)
        address = self._ask("cuMemAddressReserve", ctypes.c_ulonglong(), length, none, no_flags, no_flags)
        with contextlib.ExitStack() as undo:
            undo.callback(self.call, "cuMemAddressFree", address, length)
            self.call("cuMemMap", address, length, none, handle, no_flags)
            undo.callback(self.call, "cuMemUnmap", address, length)
            access = _Access(_Location(_DEVICE, self.device), _READ_WRITE)
            self.call("cuMemSetAccess", address, length, ctypes.byref(access), ctypes.c_size_t(1))
            undo.pop_all()
        return Mapping(address.value, size)

    def unmap(self, mapping: Mapping) -> None:
        address, length = ctypes.c_ulonglong(mapping.address), ctypes.c_size_t(mapping.size)
        self.call("cuMemUnmap", address, length)
        self.call("cuMemAddressFree", address, length)
        self._forget(mapping)

    def allocate(self, size: int) -> Mapping:
        """Memory that no other process can map."""
        address = self._ask("cuMemAlloc_v2", ctypes.c_ulonglong(), ctypes.c_size_t(size))
        self._note(allocated := Mapping(address.value, size))
        return allocated

    def free(self, memory: Mapping) -> None:
        self.call("cuMemFree_v2", ctypes.c_ulonglong(memory.address))
        self._forget(memory)

    def _note(self, memory: Mapping) -> None:
        self._own[memory.address] = memory.size
        Driver.held_bytes += memory.size

    def _forget(self, memory: Mapping) -> None:
        Driver.held_bytes -= self._own.pop(memory.address, 0)

    def allocate_word(self) -> ctypes.c_uint32:
        """A word of the host's memory, 0 at first, for which streams can wait; `free_word` frees it."""
        size = ctypes.c_size_t(ctypes.sizeof(ctypes.c_uint32))
        address = self._ask("cuMemHostAlloc", ctypes.c_void_p(), size, 0)
        assert address.value
        word = ctypes.c_uint32.from_address(address.value)
        word.value = 0
        return word

    def free_word(self, word: ctypes.c_uint32) -> None:
        self.call("cuMemFreeHost", ctypes.c_void_p(ctypes.addressof(word)))

    def write(self, address: int, data: bytes) -> None:
        self.call("cuMemcpyHtoD_v2", ctypes.c_ulonglong(address), data, ctypes.c_size_t(len(data)))
        self.call("cuStreamSynchronize", None)  # the copy returns when the data is staged, not when it is there

    def read(self, address: int, size: int) -> bytes:
        buffer = ctypes.create_string_buffer(size)
        self.call("cuMemcpyDtoH_v2", buffer, ctypes.c_ulonglong(address), ctypes.c_size_t(size))
        return buffer.raw

    def copy(self, target: int, source: int, size: int) -> None:
        """Copy from one device address to another, in the default stream."""
        self.call("cuMemcpyDtoD_v2", ctypes.c_ulonglong(target), ctypes.c_ulonglong(source), ctypes.c_size_t(size))

    def synchronize(self) -> None:
        """Wait for all work of this process's context, however long it takes."""
        self.call("cuCtxSynchronize")

    def wait(self, stream: ctypes.c_void_p | None = None, seconds: float = 60.0) -> None:
        """Wait for the work of a stream; None is the default one.

        Raises:
            DriverError: the work failed, or did not end within `seconds`.
        """
        give_up = time.monotonic() + seconds
        while code := self._library.cuStreamQuery(stream):
            if code != _NOT_READY:
                self._fail("cuStreamQuery", code)
            if time.monotonic() > give_up:
                raise DriverError(f"the GPU has not answered for {seconds:g} s")

    def _properties(self) -> _Properties:
        return _Properties(type=_PINNED, handles=_DESCRIPTOR, location=_Location(_DEVICE, self.device))

    def wait_for_value(self, stream: int | None, address: int, value: int) -> None:
        """Make all further work of a stream (by its handle) wait until the 32-bit word at `address` has this value."""
        self.call(
            "cuStreamWaitValue32_v2", ctypes.c_void_p(stream), ctypes.c_ulonglong(address), ctypes.c_uint(value), _EQUAL
        )

    # Kernels and events.

    def stream(self) -> ctypes.c_void_p:
        """A stream that does not wait for the default one; `cuStreamDestroy_v2` ends it."""
        return self._ask("cuStreamCreate", ctypes.c_void_p(), _NON_BLOCKING)

    def load(self, ptx: str) -> ctypes.c_void_p:
        """A module of kernels in PTX, which the driver compiles; `cuModuleUnload` removes it."""
        return self._ask("cuModuleLoadData", ctypes.c_void_p(), ptx.encode())

    def kernel(self, module: ctypes.c_void_p, name: str) -> ctypes.c_void_p:
        return self._ask("cuModuleGetFunction", ctypes.c_void_p(), module, name.encode())

    def launch(
        self,
        kernel: ctypes.c_void_p,
        stream: ctypes.c_void_p,
        arguments: Sequence[int],
        *,
        blocks: int = 1,
        threads: int = 1024,
    ) -> None:
        """Launch a kernel whose parameters are all of 64 bits."""
        values = [ctypes.c_ulonglong(value) for value in arguments]
        pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        self.call("cuLaunchKernel", kernel, blocks, 1, 1, threads, 1, 1, 0, stream, pointers, None)

    def event(self) -> ctypes.c_void_p:
        """An event that takes the time; `cuEventDestroy_v2` removes it."""
        return self._ask("cuEventCreate", ctypes.c_void_p(), 0)

    def elapsed_us(self, start: ctypes.c_void_p, end: ctypes.c_void_p) -> float:
        """The time between two events that have been recorded and are over."""
        return self._ask("cuEventElapsedTime", ctypes.c_float(), start, end).value * 1e3
