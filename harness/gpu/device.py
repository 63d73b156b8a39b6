"""Which device a board's kernels run on, and what the judge has to know of it before torch is there.

    CPU         the referee writes into the tensors that a kernel is given, and his own clock is the time
    CUDA        inputs wait in host memory; the player copies them to its device, and takes the time there (`inside`)
    REHEARSAL   CUDA's way with a CPU in the GPU's place: all but the GPU itself can be tried where there is none

What the referee's own process does with a device is in the module beside this one: each is a `Side`.
"""

from __future__ import annotations

import importlib
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, cast

from harness.gpu.gpu_nodes import Vendor

if TYPE_CHECKING:
    from harness.gpu.gpu_facts import Meter


class Side(Protocol):
    """The referee's side of a device: a module of this package."""

    def prepared(self, gpus: int = 1) -> AbstractContextManager[None]:
        """This process as the referee's, in the block.

        Raises:
            JudgeError: the device is not there, or does not compute; of GPUs, one of so many.
        """

    def find_trouble(self) -> str:
        """Why the device can't be used any more; "" if it can."""

    def sweep_us(self) -> float:
        """Leave nothing of a player's in the caches of a staged device, and say how long that took, in microseconds.

        It takes longer while anything of the player's still runs there.
        """

    def find_meter(self) -> Meter | None:
        """How to ask a GPU how it is while it is timed; None if there is none, or nobody can ask it."""


@dataclass(frozen=True, kw_only=True)
class Device:
    """`name` is torch's.  A staged one has inputs and outputs in host memory, and its time is taken inside.

    `rehearses` is the vendor of the GPU in whose place this one is, where that is known.
    """

    name: str
    is_staged: bool
    rehearses: Vendor | None = None

    @property
    def is_gpu(self) -> bool:
        return self.name != "cpu"

    @property
    def side(self) -> Side:
        return cast(Side, importlib.import_module(f"harness.gpu.{self.name}"))


CPU = Device(name="cpu", is_staged=False)
CUDA = Device(name="cuda", is_staged=True)
"""Of AMD, too: torch calls ROCm's devices the same."""
REHEARSAL = Device(name="cpu", is_staged=True)


def device_of(gpu: str) -> Device:
    """The device of a board."""
    return CPU if gpu == "CPU" else CUDA
