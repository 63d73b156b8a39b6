"""Read a GPU's state: name, driver, clocks, temperature, power, throttle reasons and other processes.

    NVIDIA   from the driver's library (`nvml`), at any time
    AMD      the name from rocminfo, once; the rest from the kernel's files, at any time

Values that a GPU does not report are None.  Parsing is separate from querying, so that tests can use recorded output.
"""

from __future__ import annotations

import contextlib
import ctypes
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from harness.gpu import nvml
from harness.gpu.amdgpu import AmdGpu
from harness.gpu.gpu_nodes import GpuNode

_PATH = {"PATH": "/usr/local/bin:/usr/bin:/bin:/opt/rocm/bin"}
_ASK_S = 20

_REASONS = {
    0x4: "power cap", 0x8: "hardware slowdown", 0x10: "sync boost", 0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown", 0x80: "power brake", 0x100: "display clocks", 0x200: "board limit",
    0x400: "reliability",
}  # fmt: skip
"""NVML's bits.  Idle clocks (0x1) and clocks set by an administrator (0x2) are not throttling."""
_TOO_SLOW = frozenset(("software thermal slowdown", "hardware thermal slowdown", "power brake", "critical temperature"))
"""Reasons that show insufficient cooling or power supply.  Not the power cap, which is part of the card.  Not a plain
hardware slowdown: by nvml.h it may be reported during any clock change, and its causes have their own bits.
"""
_QUIET_PERCENT = 5
_IDLE_MIB = 300.0
"""How much of the memory of an idle GPU can be in use: for a T4, 256 MiB of its firmware's were reported."""
_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True)
class GpuFacts:
    """A GPU's state: clocks in MHz, temperature in degrees Celsius, power in watts, use in percent of the time."""

    name: str
    driver: str | None = None
    clock_mhz: float | None = None
    max_clock_mhz: float | None = None
    memory_mhz: float | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    busy_percent: float | None = None
    held_back: tuple[str, ...] = ()
    others: int | None = None
    """The number of processes that compute on it."""
    throttled_ms: float | None = None
    """How long heat has throttled it since its driver was loaded, in milliseconds."""
    memory_errors: int | None = None
    """How many errors of its memory could not be corrected since its driver was loaded."""
    used_mib: float | None = None
    """How much of its memory programs use, in MiB."""

    def without_own(self, ours: int) -> GpuFacts:
        """The same facts, with `others` reduced by `ours`, the number of the judge's own processes."""
        return replace(self, others=None if self.others is None else max(0, self.others - ours))

    @property
    def trouble(self) -> str:
        """Why times measured on it now are less reliable; "" if no reason is known."""
        said = [f"The GPU is throttled: {', '.join(self.held_back)}."] if self.held_back else []
        if self.others:
            said.append(f"{self.others} other process{'es use' if self.others > 1 else ' uses'} the GPU.")
        elif (self.busy_percent or 0) > _QUIET_PERCENT:
            said.append(f"The GPU was {self.busy_percent:.0f} % busy.")
        if self.others == 0 and (self.used_mib or 0) > _IDLE_MIB:
            unseen = "programs that the driver does not list, such as a desktop's or another container's"
            said.append(f"{self.used_mib:.0f} MiB of the GPU's memory are in use by {unseen}.")
        return " ".join(said)

    @property
    def hindrance(self) -> str:
        """Why times measured on it now do not count for ranking; "" if they do."""
        if slow := [reason for reason in self.held_back if reason in _TOO_SLOW]:
            return f"it is throttled: {', '.join(slow)}; check its cooling and power supply"
        if self.others:
            return f"{self.others} other process{'es use' if self.others > 1 else ' uses'} it; the judge needs it alone"
        return ""

    def hindrance_since(self, before: GpuFacts) -> str:
        """Why times measured since `before` do not count for ranking; "" if they do.

        Ignores processes on it now: our own players may still be among them.
        """
        now = replace(self, others=None)
        if now.hindrance:
            return now.hindrance
        # The counter starts with the driver: only the difference between two readings says what happened between them.
        if now.throttled_ms is not None and before.throttled_ms is not None and now.throttled_ms > before.throttled_ms:
            throttled = now.throttled_ms - before.throttled_ms
            return f"heat throttled it for {throttled:.0f} ms meanwhile; check its cooling"
        return ""

    @property
    def state(self) -> str:
        """`1980 of 1980 MHz, memory 2619 MHz, 71 W`"""
        highest = f" of {self.max_clock_mhz:.0f}" if self.max_clock_mhz else ""
        parts = [f"{self.clock_mhz:.0f}{highest} MHz"] if self.clock_mhz else []
        parts += [f"memory {self.memory_mhz:.0f} MHz"] if self.memory_mhz else []
        return ", ".join([*parts, *([f"{self.power_w:.0f} W"] if self.power_w else [])])


Meter = Callable[[], GpuFacts]
"""Reads one GPU's state now; takes milliseconds."""


def find_meter(gpu: GpuNode, root: Path = Path("/")) -> Meter | None:
    """A meter for this GPU that works while others compute on it; None if this machine can't read its state."""
    with contextlib.suppress(OSError, AttributeError):  # no such library, file or function
        return _find_amd_meter(gpu, root) if gpu.vendor == "amd" else _find_nvidia_meter(gpu, root)
    return None


def read_gpu(gpu: GpuNode) -> GpuFacts | None:
    """This GPU's state now; None if this machine can't read it."""
    meter = find_meter(gpu)
    return meter() if meter else None


def _find_nvidia_meter(gpu: GpuNode, root: Path) -> Meter:
    device = nvml.Nvml(gpu, root)
    name, driver = device.name[:200], device.driver[:100]

    def read() -> GpuFacts:
        clock = _known(lambda: device.number("nvmlDeviceGetClockInfo", nvml.CLOCK_SM))
        highest = _known(lambda: device.number("nvmlDeviceGetMaxClockInfo", nvml.CLOCK_SM))
        memory = _known(lambda: device.number("nvmlDeviceGetClockInfo", nvml.CLOCK_MEMORY))
        power = _known(lambda: device.number("nvmlDeviceGetPowerUsage"))
        rates = _known(lambda: device.ask("nvmlDeviceGetUtilizationRates", nvml.Utilization()))
        # Newer drivers call these event reasons but keep the old function.
        reasons = _known(lambda: device.ask("nvmlDeviceGetCurrentClocksThrottleReasons", ctypes.c_ulonglong()))
        errors = _known(
            lambda: device.ask("nvmlDeviceGetTotalEccErrors", ctypes.c_ulonglong(), nvml.UNCORRECTED, nvml.SINCE_DRIVER)
        )
        memory_use = _known(lambda: device.ask("nvmlDeviceGetMemoryInfo_v2", nvml.NvmlMemoryV2()))
        heat = _known(lambda: device.ask("nvmlDeviceGetViolationStatus", nvml.Violation(), nvml.POLICY_THERMAL))
        return GpuFacts(
            name=name,
            driver=driver,
            clock_mhz=clock or None,
            max_clock_mhz=highest or None,
            memory_mhz=memory or None,
            temperature_c=_known(lambda: device.number("nvmlDeviceGetTemperature", nvml.TEMPERATURE_GPU)),
            power_w=None if power is None else power / 1e3,
            busy_percent=None if rates is None else rates.gpu,
            held_back=tuple(words for bit, words in _REASONS.items() if reasons and reasons.value & bit),
            others=_known(lambda: device.processes),
            throttled_ms=None if heat is None else heat.violation_ns / 1e6,
            memory_errors=None if errors is None else errors.value,
            used_mib=None if memory_use is None else memory_use.used / 2**20,
        )

    return read


def _known(ask: Callable[[], _T]) -> _T | None:
    """The answer, or None if this GPU or its driver does not support the query."""
    with contextlib.suppress(OSError, AttributeError):
        return ask()
    return None


def _find_amd_meter(gpu: GpuNode, root: Path) -> Meter | None:
    if not (known := read_rocminfo(_run_rocminfo(), gpu)):
        return None
    card = AmdGpu(gpu, root)
    return lambda: replace(
        known,
        clock_mhz=card.clock_mhz or None,
        memory_mhz=card.memory_mhz or None,
        power_w=card.power_w,
        temperature_c=card.temperature_c,
        busy_percent=card.busy_percent,
        held_back=("critical temperature",) if card.is_too_hot else (),
        others=card.processes,
    )


def read_rocminfo(text: str, gpu: GpuNode) -> GpuFacts | None:
    """Parse rocminfo's list of agents: the name of the agent with the GPU's id, or of the first GPU without an id."""
    for agent in re.split(r"^Agent \d+", text, flags=re.MULTILINE)[1:]:
        facts: dict[str, str] = dict(re.findall(r"^  ([\w ]+?):\s+(\S.*?)\s*$", agent, re.MULTILINE))
        if facts.get("Device Type") == "GPU" and gpu.id.lower() in ("", facts.get("Uuid", "").lower()):
            return GpuFacts(name=facts.get("Marketing Name", facts.get("Name", "AMD"))[:200])
    return None


def _run_rocminfo() -> str:
    """The output of rocminfo; "" if it is missing, fails or takes too long."""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(
            ["rocminfo"], capture_output=True, text=True, errors="replace", timeout=_ASK_S,
            stdin=subprocess.DEVNULL, check=False, env=_PATH,
        )  # fmt: skip
        if done.returncode == 0:
            return done.stdout
    return ""
