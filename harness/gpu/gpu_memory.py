"""Read from the driver how much of a GPU's memory is in use by all processes, without a context on the GPU.

    NVIDIA   libnvidia-ml.so.1, which comes with the driver
    AMD      /sys/class/drm/renderD128/device/mem_info_vram_used and _total

It does not query the memory of single processes: in a container, the driver reports pids of the host, or none at all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness.gpu.gpu_nodes import GpuNode
from harness.gpu.nvml import Nvml, NvmlMemory


@dataclass(frozen=True, kw_only=True)
class CardMemory:
    """A GPU's memory, in bytes."""

    total: int
    used: int

    @property
    def free(self) -> int:
        return self.total - self.used


ReadCard = Callable[[], CardMemory]
"""Reads one GPU's memory.  Raises OSError if the driver no longer answers."""


def find_card(gpu: GpuNode, root: Path = Path("/")) -> ReadCard | None:
    """A function that reads this GPU's memory; None if this machine can't read it."""
    try:
        card = _amd(gpu, root) if gpu.vendor == "amd" else _nvidia(gpu, root)
        card()
    except (OSError, AttributeError, ValueError):  # no such library, file or function
        return None
    return card


def _amd(gpu: GpuNode, root: Path) -> ReadCard:
    folder = root / "sys/class/drm" / Path(gpu.node).name / "device"

    def ask(what: str) -> int:
        return int((folder / f"mem_info_vram_{what}").read_text())

    return lambda: CardMemory(total=ask("total"), used=ask("used"))


def _nvidia(gpu: GpuNode, root: Path) -> ReadCard:
    nvml = Nvml(gpu, root)

    def read() -> CardMemory:
        memory = nvml.ask("nvmlDeviceGetMemoryInfo", NvmlMemory())
        return CardMemory(total=memory.total, used=memory.used)

    return read
