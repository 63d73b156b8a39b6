"""Facts about this machine, and whether it is quiet enough for timing.

Judgements record them.  A fact that the machine does not report is left out.
"""

from __future__ import annotations

import os
import platform
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.gpu.gpu_facts import GpuFacts
from harness.processes.other_work import MAX_OTHER_WORK
from harness.records.judgement import Machine
from harness.records.stats import median
from harness.records.times import GpuState
from harness.referee.software import read_software, version_of

_QUIET = 0.1
"""Maximum share of the cores that may be busy with other work, and of the runs with more than `MAX_OTHER_WORK`."""
_LISTEN_S = 0.2


def read_machine(gpus: Sequence[GpuFacts] = (), include_dirs: Mapping[str, str] | None = None) -> Machine:
    """Read the facts of this machine, and of the GPUs to judge on, before judging starts.

    Args:
        include_dirs: folders of headers that the board has, by the name of their library.
    """
    gpu = gpus[0] if gpus else None
    busy = busy_share()
    quiet = busy is None or busy <= _QUIET
    notes = [] if quiet else [f"Other processes used {busy:.0%} of the CPU when the judging began."]
    notes += [note for one in gpus for note in (one.trouble, one.state and f"Before: {one.state}.") if note]
    return Machine(
        device=_device_name(gpus) if gpus else _cpu_name(),
        cpu=_cpu_name(),
        cores=len(os.sched_getaffinity(0)),
        memory_gib=round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1),
        os=f"{_os_name()}, Linux {platform.release()}"[:500],
        python=platform.python_version(),
        torch=version_of("torch") or "unknown",
        software=read_software(include_dirs),
        driver=gpu.driver if gpu else None,
        clock_mhz=gpu.clock_mhz if gpu else None,
        temperature_c=gpu.temperature_c if gpu else None,
        quiet=quiet and not any(one.trouble for one in gpus),
        note=" ".join(notes)[:500],
    )


def as_timed(
    machine: Machine,
    states: Sequence[GpuState],
    other_work: Sequence[float] = (),
    *,
    repeats: int = 0,
    waited_s: float = 0.0,
) -> Machine:
    """Add what was measured in the runs: the GPU's clock (median) and temperature (maximum), and other work.

    Args:
        other_work: the share of a core that other work took, for each run.
        repeats: how many more runs were played again, because of other work or of a call that stalled.
        waited_s: how long the judge waited for idle cores, in all.
    """
    quiet, notes = machine.quiet, [machine.note] if machine.note else []
    if waited_s >= 1:
        notes.append(f"The judge waited {waited_s:.0f} s for idle cores.")
    if repeats:
        runs = f"{repeats} run{'s' * (repeats > 1)}"
        notes.append(f"The judge played {runs} again, because of other work or of a call that stalled.")
    if disturbed := [share for share in other_work if share > MAX_OTHER_WORK]:
        quiet = quiet and len(disturbed) <= _QUIET * len(other_work)
        share = f"{max(disturbed):.0%} of a core"
        notes.append(f"Other work took up to {share} in {len(disturbed)} of {len(other_work)} runs.")
    clocks, heats, powers = (
        [value for state in states if (value := getattr(state, name)) is not None]
        for name in ("clock_mhz", "temperature_c", "power_w")
    )
    hindered = [state.hindrance for state in states if state.hindrance]
    parts = [f"{min(clocks):.0f} to {max(clocks):.0f} MHz"] if clocks else []
    parts += [f"{min(heats):.0f} to {max(heats):.0f} °C"] if heats else []
    parts += [f"{min(powers):.0f} to {max(powers):.0f} W"] if powers else []
    notes += [f"After its {len(states)} runs: {', '.join(parts)}."] if parts else []
    notes += [f"{len(hindered)} of {len(states)} runs cannot be ranked: {hindered[0]}."] if hindered else []
    found = {
        "clock_mhz": median(clocks) if clocks else machine.clock_mhz,
        "temperature_c": max(heats, default=machine.temperature_c),
        "quiet": quiet and not hindered,
        "note": " ".join(notes)[:500],
    }
    return machine.model_copy(update=found)


def _device_name(gpus: Sequence[GpuFacts]) -> str:
    """`NVIDIA H100` or `4 x NVIDIA H100`.  A board never mixes devices."""
    return gpus[0].name if len(gpus) == 1 else f"{len(gpus)} x {gpus[0].name}"


def busy_share() -> float | None:
    """Measure the CPU utilization of the machine for a moment, 0 to 1; None if it cannot be read."""
    try:
        before = _cpu_ticks()
        time.sleep(_LISTEN_S)
        after = _cpu_ticks()
    except OSError:
        return None
    total = sum(after) - sum(before)
    idle = (after[3] + after[4]) - (before[3] + before[4])
    return 1 - idle / total if total else 0.0


def _cpu_ticks() -> list[int]:
    # user nice system idle iowait irq softirq steal
    return [int(ticks) for ticks in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]


def _cpu_name() -> str:
    found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return (found[1] if found else platform.machine())[:200]


def _os_name() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "Linux")
    except OSError:
        return "Linux"
