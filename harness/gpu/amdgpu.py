"""Read the state of an AMD GPU from the kernel's files, without a library or a context on the GPU.

    /sys/class/drm/renderD128/device/    gpu_busy_percent, hwmon/hwmon3/{freq,power,temp}*    amdgpu
    /sys/class/kfd/kfd/                  topology/nodes/1/{properties,gpu_id}                 amdkfd
                                         proc/<pid>/queues/<number>/gpuid                     processes on each GPU

A value that no file has is None.
"""

from __future__ import annotations

import glob
import re
from pathlib import Path

from harness.gpu.gpu_nodes import GpuNode, read_text


class AmdGpu:
    def __init__(self, gpu: GpuNode, root: Path = Path("/")) -> None:
        self._folder = root / "sys/class/drm" / Path(gpu.node).name / "device"
        self._sensors = next(iter(sorted(self._folder.glob("hwmon/hwmon*"))), self._folder)
        self._kfd = root / "sys/class/kfd/kfd"
        self._number = self._find_number(gpu)

    def _find_number(self, gpu: GpuNode) -> int | None:
        """The GPU's id in amdkfd, found by its render node."""
        minor = rf"^drm_render_minor {Path(gpu.node).name.removeprefix('renderD')}$"
        for folder in self._kfd.glob("topology/nodes/*"):
            if re.search(minor, read_text(folder / "properties"), re.MULTILINE):
                return _number(folder / "gpu_id")
        return None

    @property
    def clock_mhz(self) -> float | None:
        return self._sensed("freq1_input", 1e6)

    @property
    def memory_mhz(self) -> float | None:
        return self._sensed("freq2_input", 1e6)

    @property
    def power_w(self) -> float | None:
        """The average power; if the GPU does not report one, the current power."""
        average = self._sensed("power1_average", 1e6)
        return self._sensed("power1_input", 1e6) if average is None else average

    @property
    def temperature_c(self) -> float | None:
        """The temperature of the hottest sensor."""
        return max((heat for heat, _ in self._heats()), default=None)

    @property
    def is_too_hot(self) -> bool:
        """Whether a sensor has reached its critical temperature."""
        return any(critical and heat >= critical for heat, critical in self._heats())

    @property
    def busy_percent(self) -> float | None:
        return _number(self._folder / "gpu_busy_percent")

    @property
    def processes(self) -> int | None:
        """How many processes have a queue on this GPU, including those in other containers."""
        if self._number is None or not (self._kfd / "proc").is_dir():
            return None
        # Not `Path.glob`: it fails if a process ends during the search.
        queues = map(Path, glob.iglob(f"{glob.escape(str(self._kfd))}/proc/*/queues/*/gpuid"))
        return len({queue.parts[-4] for queue in queues if _number(queue) == self._number})

    def _heats(self) -> list[tuple[float, float | None]]:
        """Each sensor's temperature and critical temperature."""
        heats = ((self._sensed(f"temp{n}_input", 1e3), self._sensed(f"temp{n}_crit", 1e3)) for n in (1, 2, 3))
        return [(heat, critical) for heat, critical in heats if heat is not None]

    def _sensed(self, name: str, unit: float) -> float | None:
        found = _number(self._sensors / name)
        return None if found is None else found / unit


def _number(path: Path) -> int | None:
    text = read_text(path).strip()
    return int(text) if text.isdecimal() else None
