"""How much of a GPU's memory is in use, whoever holds it: from its driver, at any time, without a context on it.

    NVIDIA   libnvidia-ml.so.1, which comes with the driver
    AMD      /sys/class/drm/renderD128/device/mem_info_vram_used and _total

What single processes hold is not asked: in a container the driver names them by numbers that mean nothing there, if it
names them at all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness.gpu.gpu_nodes import GpuNode
from harness.gpu.nvml import Nvml, NvmlMemory


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


def find_card(gpu: GpuNode, root: Path = Path("/")) -> Card | None:
    """How to ask this GPU; None if nobody here can."""
    try:
        card = _amd(gpu, root) if gpu.vendor == "amd" else _nvidia(gpu, root)
        card()
    except (OSError, AttributeError, ValueError):  # no such library, file or function
        return None
    return card


def _amd(gpu: GpuNode, root: Path) -> Card:
    folder = root / "sys/class/drm" / Path(gpu.node).name / "device"

    def ask(what: str) -> int:
        return int((folder / f"mem_info_vram_{what}").read_text())

    return lambda: CardMemory(total=ask("total"), used=ask("used"))


def _nvidia(gpu: GpuNode, root: Path) -> Card:
    nvml = Nvml(gpu, root)

    def read() -> CardMemory:
        memory = nvml.ask("nvmlDeviceGetMemoryInfo", NvmlMemory())
        return CardMemory(total=memory.total, used=memory.used)

    return read
