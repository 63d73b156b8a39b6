"""What a GPU says of itself: name, driver, clocks, temperature, power, why it is held back, who else uses it.

From NVIDIA's library, if `nvidia-ml-py` is installed, else from `nvidia-smi`; of AMD, the name from `rocminfo`.  What a
GPU does not tell is absent.  Reading is apart from asking, so that recorded answers can be read anywhere.
"""

from __future__ import annotations

import contextlib
import csv
import importlib
import re
import subprocess
from dataclasses import dataclass, replace
from typing import Any

from harness.gpu_nodes import Gpu

_PATH = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/local/nvidia/bin:/opt/rocm/bin"}
_ASK_S = 20

QUERY = (
    "name", "uuid", "driver_version", "clocks.sm", "clocks.max.sm", "clocks.mem", "temperature.gpu", "power.draw",
    "utilization.gpu", "clocks_throttle_reasons.active",
)  # fmt: skip
"""The columns that nvidia-smi is asked for.  Newer drivers call the last one clocks_event_reasons, too."""

_REASONS = {
    0x4: "power cap", 0x8: "hardware slowdown", 0x10: "sync boost", 0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown", 0x80: "power brake", 0x100: "display clocks",
}  # fmt: skip
"""NVML's bits.  That it idles (0x1), or that somebody has set its clocks (0x2), holds nobody back."""
_TOO_SLOW = frozenset(("hardware slowdown", "software thermal slowdown", "hardware thermal slowdown", "power brake"))
"""What holds back a machine whose cooling or supply does not suffice.  The power cap is the card's own."""
_QUIET_PERCENT = 5


@dataclass(frozen=True, kw_only=True)
class GpuFacts:
    """Clocks in MHz, temperature in degrees Celsius, power in watts, use in percent of the time."""

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
    """Processes that compute on it."""
    throttled_ms: float | None = None
    """How long it was held back by its temperature since its driver was loaded."""

    @property
    def trouble(self) -> str:
        """Why times that are taken on it now are worth less; "" if nothing is known."""
        said = [f"The GPU is held back: {', '.join(self.held_back)}."] if self.held_back else []
        if self.others:
            said.append(f"Others compute on it: {self.others} process{'es' if self.others > 1 else ''}.")
        elif (self.busy_percent or 0) > _QUIET_PERCENT:
            said.append(f"It was busy for {self.busy_percent:.0f} % of the time before.")
        return " ".join(said)

    @property
    def hindrance(self) -> str:
        """Why times that are taken on it now rank nobody; "" if they may."""
        if slow := [reason for reason in self.held_back if reason in _TOO_SLOW]:
            return f"it is held back: {', '.join(slow)}; see to its cooling and supply"
        if self.others:
            return (
                f"{self.others} other process{'es compute' if self.others > 1 else ' computes'} on it; it must be alone"
            )
        return ""

    def hindrance_since(self, before: GpuFacts) -> str:
        """Why times that were taken between two looks rank nobody; "" if they may.

        Who computes on it now is not asked: our own players may still be there.
        """
        now = replace(self, others=None)
        if not now.hindrance and (throttled := (now.throttled_ms or 0) - (before.throttled_ms or 0)) > 0:
            return f"it was held back by its temperature for {throttled:.0f} ms meanwhile; see to its cooling"
        return now.hindrance

    @property
    def state(self) -> str:
        """`1980 of 1980 MHz, memory 2619 MHz, 71 W`"""
        highest = f" of {self.max_clock_mhz:.0f}" if self.max_clock_mhz else ""
        parts = [f"{self.clock_mhz:.0f}{highest} MHz"] if self.clock_mhz else []
        parts += [f"memory {self.memory_mhz:.0f} MHz"] if self.memory_mhz else []
        return ", ".join([*parts, *([f"{self.power_w:.0f} W"] if self.power_w else [])])


def read_gpu(gpu: Gpu) -> GpuFacts | None:
    """What this GPU says now; None if nobody here can ask it."""
    if gpu.vendor == "amd":
        return read_rocminfo(_ask(["rocminfo"]) or "", gpu)
    return _ask_library(gpu) or _ask_smi(gpu)


def _ask_smi(gpu: Gpu) -> GpuFacts | None:
    which = ["--id=" + gpu.id] if gpu.id else []
    table = _ask(["nvidia-smi", f"--query-gpu={','.join(QUERY)}", "--format=csv,noheader,nounits", *which])
    others = _ask(["nvidia-smi", "--query-compute-apps=pid", "--format=csv,noheader", *which])
    return read_smi(table or "", others, gpu)


def read_smi(table: str, others: str | None, gpu: Gpu) -> GpuFacts | None:
    """From nvidia-smi's CSV: one line a GPU, one line a process; None if the GPU is not among them."""
    for row in csv.reader(table.splitlines(), skipinitialspace=True):
        if len(row) == len(QUERY) and (not gpu.id or row[1] == gpu.id):
            name, _, driver, *rest = (cell.strip() for cell in row)
            *numbers, reasons = rest
            clock, highest, memory, temperature, power, busy = map(_number, numbers)
            return GpuFacts(
                name=name[:200],
                driver=driver[:100] or None,
                clock_mhz=clock or None,
                max_clock_mhz=highest or None,
                memory_mhz=memory or None,
                temperature_c=temperature,
                power_w=power,
                busy_percent=busy,
                held_back=_reasons(int(reasons, 16) if re.fullmatch(r"0x[0-9a-fA-F]+", reasons) else 0),
                others=None if others is None else sum(line.strip().isdecimal() for line in others.splitlines()),
            )
    return None


def _ask_library(gpu: Gpu) -> GpuFacts | None:
    try:
        nvml: Any = importlib.import_module("pynvml")
        nvml.nvmlInit()
    except Exception:  # not installed, or no driver: nvidia-smi may know more
        return None
    try:
        return _read_library(nvml, gpu)
    except nvml.NVMLError:
        return None
    finally:
        nvml.nvmlShutdown()


def _read_library(nvml: Any, gpu: Gpu) -> GpuFacts:
    handle = nvml.nvmlDeviceGetHandleByUUID(gpu.id) if gpu.id else nvml.nvmlDeviceGetHandleByIndex(0)

    def ask(function: str, *arguments: Any) -> Any:
        """What this GPU does not support is absent."""
        with contextlib.suppress(nvml.NVMLError, AttributeError):
            return getattr(nvml, function)(*arguments)
        return None

    power = ask("nvmlDeviceGetPowerUsage", handle)
    rates = ask("nvmlDeviceGetUtilizationRates", handle)
    others = ask("nvmlDeviceGetComputeRunningProcesses", handle)
    throttled = ask("nvmlDeviceGetViolationStatus", handle, nvml.NVML_PERF_POLICY_THERMAL)
    return GpuFacts(
        name=_text(nvml.nvmlDeviceGetName(handle))[:200],
        driver=_text(nvml.nvmlSystemGetDriverVersion())[:100],
        clock_mhz=ask("nvmlDeviceGetClockInfo", handle, nvml.NVML_CLOCK_SM) or None,
        max_clock_mhz=ask("nvmlDeviceGetMaxClockInfo", handle, nvml.NVML_CLOCK_SM) or None,
        memory_mhz=ask("nvmlDeviceGetClockInfo", handle, nvml.NVML_CLOCK_MEM) or None,
        temperature_c=ask("nvmlDeviceGetTemperature", handle, nvml.NVML_TEMPERATURE_GPU),
        power_w=None if power is None else power / 1e3,
        busy_percent=None if rates is None else rates.gpu,
        held_back=_reasons(ask("nvmlDeviceGetCurrentClocksThrottleReasons", handle) or 0),
        others=None if others is None else len(others),
        throttled_ms=None if throttled is None else throttled.violationTime / 1e6,
    )


def read_rocminfo(text: str, gpu: Gpu) -> GpuFacts | None:
    """From rocminfo's list of agents: the name of the one that has the GPU's id, or of the first GPU."""
    for agent in re.split(r"^Agent \d+", text, flags=re.MULTILINE)[1:]:
        facts: dict[str, str] = dict(re.findall(r"^  ([\w ]+?):\s+(\S.*?)\s*$", agent, re.MULTILINE))
        if facts.get("Device Type") == "GPU" and gpu.id.lower() in ("", facts.get("Uuid", "").lower()):
            return GpuFacts(name=facts.get("Marketing Name", facts.get("Name", "AMD"))[:200])
    return None


def _reasons(bits: int) -> tuple[str, ...]:
    return tuple(words for bit, words in _REASONS.items() if bits & bit)


def _number(cell: str) -> float | None:
    """`[N/A]`, `[Not Supported]` and the like are None."""
    with contextlib.suppress(ValueError):
        return float(cell)
    return None


def _text(value: str | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _ask(command: list[str]) -> str | None:
    """What a program prints; None if it is not there, fails or takes too long."""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_ASK_S,
            stdin=subprocess.DEVNULL, check=False, env=_PATH,
        )  # fmt: skip
        if done.returncode == 0:
            return done.stdout
    return None
