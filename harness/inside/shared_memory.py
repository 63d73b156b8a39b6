"""In the player: memory of the GPU that the referee shares; it holds the inputs of calls, and room for their outputs.

The referee owns it.  It writes the inputs just before the calls, and copies the outputs away right after them.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Sequence
from typing import Any, ClassVar

import torch

from harness.inside.cuda_driver import Driver, Mapping
from harness.inside.outputs import OutputPlace, describe, map_tensors
from harness.inside.protocol import MAX_SIZE, TensorSpec, aligned, gate_of

_LOOK_S = 50e-6


class SharedMemory:
    """The memory of one player.  `device` is torch's name for the device, `library` its driver's."""

    _fresh_bytes: ClassVar[Sequence[int]] = ()
    _blank: ClassVar[list[torch.Tensor]] = []

    def __init__(self, device: str, library: str) -> None:
        self._device = device
        self._driver = Driver(library)
        if device != "cpu":
            torch.zeros(1, device=device).add_(1)
            torch.cuda.synchronize()
        self._mappings: list[Mapping] = []
        self._output_step = 0

    def echo(self, order: dict[str, Any], descriptors: Sequence[int]) -> None:
        """Map memory and copy some bytes from the inputs to the outputs, to show that both sides see them."""
        self._map(order["sizes"], descriptors)
        read, write = (self._bytes_of(Mapping(mapping.address, order["bytes"])) for mapping in self._mappings)
        write.copy_(read)
        self.synchronize()
        self._map([], [])

    def _map(self, sizes: Sequence[int], descriptors: Sequence[int]) -> None:
        """Map new memory in place of the old."""
        while self._mappings:
            self._driver.unmap(self._mappings.pop())
        for descriptor, size in zip(descriptors, sizes, strict=True):
            self._mappings.append(self._driver.open(descriptor, size))
            os.close(descriptor)

    def allocate(self, order: dict[str, Any], descriptors: Sequence[int]) -> list[list[torch.Tensor]]:
        """Map new memory in place of the old; return the inputs of each call."""
        self._map(order["sizes"], descriptors)
        self._output_step = order["steps"][1]
        SharedMemory._fresh_bytes, SharedMemory._blank = order["fresh_bytes"], []

        def tensor(call: int, dtype: str, shape: list[int], strides: list[int], place: int, offset: int) -> Any:
            start = self._mappings[place].address + call * order["steps"][place] + offset
            item = getattr(torch, dtype)
            size = TensorSpec(dtype, tuple(shape), tuple(strides)).span_bytes
            # Its own storage, like any tensor: compilers care about tensors that share one.
            span = self._bytes_of(Mapping(start, size or item.itemsize))
            return span.view(item).as_strided(shape, strides)

        return [[tensor(call, *spec) for spec in order["tensors"]] for call in range(order["calls"])]

    def _bytes_of(self, mapping: Mapping) -> torch.Tensor:
        if self._device == "cpu":
            return torch.frombuffer((ctypes.c_ubyte * mapping.size).from_address(mapping.address), dtype=torch.uint8)
        return torch.as_tensor(_DeviceBytes(mapping), device=f"{self._device}:0")

    def put(self, output: Any, call: int) -> str:
        """Copy the tensors of an output to the room of this call, unless they are there; describe the output."""
        room = self._mappings[1]
        start, end = call * self._output_step, (call + 1) * self._output_step
        at = start

        def place(tensor: torch.Tensor) -> int:
            """Where a tensor is in the memory of the outputs; out of it if it is elsewhere."""
            if not tensor.numel():
                return 0
            place = int(tensor.data_ptr()) - room.address
            return place if 0 <= place < room.size else MAX_SIZE

        def find_end(tensor: torch.Tensor) -> torch.Tensor:
            nonlocal at
            if tensor.numel() and start <= (first := place(tensor)) < end:
                last = sum((n - 1) * step for n, step in zip(tensor.shape, tensor.stride(), strict=True))
                at = max(at, aligned(first + (last + 1) * tensor.element_size()))
            return tensor

        def copy(tensor: torch.Tensor) -> torch.Tensor:
            nonlocal at
            size = tensor.numel() * tensor.element_size()
            is_there = not size or start <= place(tensor) < end
            if is_there or tensor.device.type != self._device or at + size > end:
                return tensor
            target = self._view(room, at, tensor)
            at += aligned(size)
            return target.copy_(tensor.detach())

        map_tensors(output, find_end)
        return describe(map_tensors(output, copy), place=OutputPlace(self._device, place))

    def _view(self, room: Mapping, at: int, like: torch.Tensor) -> torch.Tensor:
        """A contiguous tensor at a place in the memory of the outputs."""
        span = self._bytes_of(Mapping(room.address + at, like.numel() * like.element_size()))
        return span.view(like.dtype).view(like.shape)

    @property
    def can_queue(self) -> bool:
        """Whether work can be queued on the device.  A CPU in a GPU's place runs it at once."""
        return self._device != "cpu"

    def wait_for_gate(self, number: int) -> None:
        """Let all further work in the current stream wait until the referee has revealed the inputs."""
        gate = gate_of(self._mappings[0].address, self._mappings[0].size)
        if self.can_queue:
            self._driver.wait_for_value(torch.cuda.current_stream().cuda_stream, gate, number)
            return
        word = ctypes.c_uint32.from_address(gate)
        while word.value != number:
            time.sleep(_LOOK_S)

    def synchronize(self) -> None:
        """Wait for all work of this process on the device."""
        if self.can_queue:
            torch.cuda.synchronize()  # its errors say more than the driver's
        else:
            self._driver.synchronize()

    @classmethod
    def blank_output(cls) -> list[torch.Tensor]:
        """Tensors as large as a right output, for a player that computes nothing."""
        if not cls._blank:
            device = "cuda" if torch.cuda.is_available() else "cpu"
            cls._blank = [torch.zeros(size, dtype=torch.uint8, device=device) for size in cls._fresh_bytes]
        return cls._blank


class _DeviceBytes:
    """Memory of the device, as torch reads it."""

    def __init__(self, mapping: Mapping) -> None:
        self.__cuda_array_interface__ = {
            "shape": (mapping.size,), "typestr": "|u1", "data": (mapping.address, False), "version": 3,
        }  # fmt: skip
