"""The devices that kernels run on: what the judge needs before it imports torch.

    CPU         the referee writes the inputs into the player's memory and measures the time with its own clock
    CUDA        NVIDIA's GPUs: the referee shares memory of the GPU with the player, and measures the time there
    STAGED      AMD's GPUs: inputs wait in host memory; the player copies them to its device and measures the time there
    REHEARSAL   the procedure of STAGED with a CPU in the GPU's place, to test it on a machine without a GPU

The modules `cpu` and `cuda` in this folder are what the referee's own process does with a device: each is a
`RefereeDevice`.
"""

from __future__ import annotations

import importlib
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, cast

from harness.gpu.gpu_nodes import Vendor, find_gpus
from harness.inside.cuda_driver import LIBRARY

if TYPE_CHECKING:
    from harness.gpu.gpu_facts import Meter


class RefereeDevice(Protocol):
    """The referee's side of a device.  A module of this package implements it."""

    def prepared(self, gpus: int = 1) -> AbstractContextManager[None]:
        """Prepare this process as the referee's, for the block.

        Raises:
            JudgeError: the device, or one of the `gpus`, is missing or does not work.
        """

    def find_trouble(self) -> str:
        """Why the device no longer works; "" if it works."""

    def sweep_us(self) -> float:
        """Flush the caches of a staged device; returns how long that took, in microseconds.

        It takes longer while work of the player still runs there.
        """

    def find_meter(self) -> Meter | None:
        """A meter that reads the GPU's state between timed calls; None if there is no GPU or it can't be read."""


@dataclass(frozen=True, kw_only=True)
class Device:
    """A device that kernels run on; `name` is torch's name for it.

    `is_staged`: the player copies inputs and outputs between host memory and the device, and times the calls itself.
    `driver` is the library, by name or path, of a device whose memory is sealed (`harness.referee.sealed`).
    `rehearses` is the vendor of the GPU that a rehearsal replaces, if known.
    """

    name: str
    is_staged: bool = False
    driver: str = ""
    rehearses: Vendor | None = None

    @property
    def is_gpu(self) -> bool:
        return self.name != "cpu"

    @property
    def is_sealed(self) -> bool:
        return bool(self.driver)

    @property
    def is_bounded(self) -> bool:
        """Whether the referee's own clock bounds its times."""
        return not self.is_staged

    @property
    def opens_a_device(self) -> bool:
        """Whether players must open the device before they load the submission."""
        return self.is_staged or self.is_sealed

    @property
    def referee_side(self) -> RefereeDevice:
        return cast(RefereeDevice, importlib.import_module(f"harness.gpu.{self.name}"))


CPU = Device(name="cpu")
CUDA = Device(name="cuda", driver=LIBRARY)
STAGED = Device(name="cuda", is_staged=True)
"""For AMD's GPUs: torch gives ROCm devices the name `cuda`, too."""
REHEARSAL = Device(name="cpu", is_staged=True)


def device_of(gpu: str) -> Device:
    """The device of a board, on this machine."""
    if gpu == "CPU":
        return CPU
    return STAGED if any(node.vendor == "amd" for node in find_gpus()) else CUDA
