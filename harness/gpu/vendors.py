"""The GPU vendors' profilers, by one door: where each is found, how it is called, what it leaves, how that is read.

    ncu         NVIDIA's Nsight Compute   --set full, a .ncu-rep; the table is its page `raw` as CSV
    rocprofv3   AMD's ROCprofiler-SDK     --kernel-trace, which leaves a CSV

They run inside the walls, around a player (`watch`), and with no more rights than it has: so the driver must let
everybody read its counters.  What they leave is read as hostile text, for the submission may have written it.
"""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal

from harness.gpu.gpu_nodes import Vendor
from harness.inside.watch import FOLDER
from harness.records.counters import MAX_KERNELS, MAX_REPORT, Counters, Kernel, Limiter

MAX_TABLE = 8 << 20
_MAX_COLUMNS = 10_000
_MAX_ROWS = 10_000
_MAX_HEADER = 100
_MAX_LAUNCHES = 50
"""How many kernels of a call ncu looks at: each is played again some forty times."""
_MAX_NAME = 200
_LAST_WORDS = 160

PARAMS = Path("proc/driver/nvidia/params")
COUNTERS_FOR_ALL = (
    "let all users read the GPU's counters: put `options nvidia NVreg_RestrictProfilingToAdminUsers=0` into a file of "
    "/etc/modprobe.d/ on the machine itself, and load the driver anew, or reboot"
)


@dataclass(frozen=True, kw_only=True)
class Launch:
    """One launch of a kernel, as a profiler's table has it."""

    name: str
    time_us: float
    compute: float | None = None
    memory: float | None = None
    occupancy: float | None = None
    registers: int | None = None
    limiter: Limiter | None = None


@dataclass(frozen=True, kw_only=True)
class Profiler:
    """A vendor's profiler: `options` go before the player's command, `export` prints the table of the report.

    `table` and `report` are files that it leaves; `places` are where it lies if it is not in the PATH; `folders` are
    what it needs to see of this machine; `troubles` say of what it prints what is wrong, and the way out.
    """

    name: Literal["ncu", "rocprofv3"]
    options: tuple[str, ...]
    export: tuple[str, ...] = ()
    table: str
    report: str
    read: Callable[[list[str]], Iterator[Launch]]
    places: tuple[str, ...]
    folders: tuple[str, ...]
    install: str
    troubles: Mapping[str, str]

    @property
    def path(self) -> str:
        """Where it is on this machine; "" if it is not."""
        near = (str(path) for place in self.places for path in sorted(Path("/").glob(place), reverse=True))
        return shutil.which(self.name) or next((path for path in near if os.access(path, os.X_OK)), "")

    @property
    def shown(self) -> tuple[str, ...]:
        """What players must see beside the system's own; of a place that others share, the tool alone."""
        if not self.path:
            return ()
        path = Path(self.path).resolve()
        is_at_home = any(path.match(f"/{place}") for place in self.places)
        shown = (*self.folders, str(path.parent if is_at_home else path))
        return tuple(place for place in shown if os.path.exists(place) and not Path(place).is_relative_to("/usr"))

    @property
    def order(self) -> dict[str, object]:
        """What `watch.start` is told; the path may lead through links that players don't see."""
        path = str(Path(self.path).resolve())
        return {
            "profiler": [path, *self.options],
            "export": [path, *self.export] if self.export else [],
            "table": self.table,
            "report": self.report,
            "limits": {"table": MAX_TABLE, "report": MAX_REPORT},
        }

    def missing(self) -> Counters:
        return Counters(tool=self.name, trouble=f"{self.name} is not on the judge's machine: {self.install}")

    def counters_of(self, table: bytes, report_bytes: int, log: str, why: str) -> Counters:
        """What its table comes to.

        Args:
            log: what was printed, by it and by the submission.
            why: what is said where there are no kernels, and nothing that we know stands in the log.
        """
        try:
            kernels = _kernels_of(self.read(table.decode("utf-8", "replace").split("\n")))
        except (csv.Error, ValueError):
            kernels, why = (), f"{self.name} left a table that cannot be read"
        if kernels:
            return Counters(tool=self.name, kernels=kernels, report_bytes=report_bytes)
        known = (says for words, says in self.troubles.items() if words in log)
        return Counters(tool=self.name, trouble=next(known, f"{self.name} showed no kernel: {why}")[:500])


class ProfilerOutput:
    """What a watcher sends: how long table and report are, then both.  Hostile bytes."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, chunk: bytes) -> None:
        # What is more than a parcel may have is forged: it is read, so that nobody waits, and thrown away.
        self._bytes += chunk[: MAX_TABLE + MAX_REPORT + _MAX_HEADER - len(self._bytes)]

    def open(self) -> tuple[bytes, bytes]:
        """Table and report; both empty where it is no such parcel."""
        header, _, rest = bytes(self._bytes).partition(b"\n")
        try:
            sizes = json.loads(header[:_MAX_HEADER])
        except (ValueError, RecursionError):
            return b"", b""
        match sizes:
            case [int(table), int(report)] if 0 <= table <= MAX_TABLE and 0 <= report <= MAX_REPORT:
                if len(rest) == table + report:
                    return rest[:table], rest[table:]
        return b"", b""


def last_words(log: str) -> str:
    """The last line that was printed, or ncu's last error, for a sentence."""
    lines = [" ".join(line.split()) for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("==ERROR==")]
    return f", after `{(errors or lines)[-1][:_LAST_WORDS]}`" if lines else ""


def why_refused(vendor: Vendor, root: Path = Path("/")) -> str:
    """Why players may not read a GPU's counters, as far as this machine says so beforehand."""
    if vendor == "amd":
        return ""
    try:
        is_refused = re.search(r"^RmProfilingAdminOnly: 1$", (root / PARAMS).read_text(), re.MULTILINE)
    except OSError:
        return ""
    return "only root may read the GPU's counters" if is_refused else ""


def _kernels_of(launches: Iterable[Launch]) -> tuple[Kernel, ...]:
    """Launches of one name together, the longest first."""
    by_name: dict[str, list[Launch]] = {}
    for launch in launches:
        by_name.setdefault(launch.name, []).append(launch)
    kernels = (_kernel_of(name, ours) for name, ours in by_name.items())
    return tuple(sorted(kernels, key=lambda kernel: -kernel.time_us)[:MAX_KERNELS])


def _kernel_of(name: str, launches: list[Launch]) -> Kernel:
    longest = max(launches, key=lambda launch: launch.time_us)
    return Kernel(
        name=name,
        launches=len(launches),
        time_us=min(sum(launch.time_us for launch in launches), 9e11),
        compute=_mean([(launch.compute, launch.time_us) for launch in launches]),
        memory=_mean([(launch.memory, launch.time_us) for launch in launches]),
        occupancy=_mean([(launch.occupancy, launch.time_us) for launch in launches]),
        registers=max((launch.registers for launch in launches if launch.registers is not None), default=None),
        limiter=longest.limiter,
    )


def _mean(shares: list[tuple[float | None, float]]) -> float | None:
    """Over time; of those that are known."""
    known = [(share, time_us) for share, time_us in shares if share is not None]
    whole_us = sum(time_us for _, time_us in known)
    return sum(share * time_us for share, time_us in known) / whole_us if whole_us > 0 else None


# ---------------------------------------------------------------------- ncu

_MICROSECONDS = {
    "ns": 1e-3, "nsecond": 1e-3, "us": 1.0, "usecond": 1.0, "ms": 1e3, "msecond": 1e3, "s": 1e6, "second": 1e6
}  # fmt: skip
_TIME = "gpu__time_duration.sum"
_COMPUTE = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
_MEMORY = "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"
_OCCUPANCY = "sm__warps_active.avg.pct_of_peak_sustained_active"
_REGISTERS = "launch__registers_per_thread"
_LIMITS: dict[str, Limiter] = {
    "launch__occupancy_limit_registers": "registers",
    "launch__occupancy_limit_shared_mem": "shared memory",
    "launch__occupancy_limit_blocks": "blocks",
}
"""How many blocks fit on a multiprocessor by each of these."""
_ALL_WARPS = "launch__occupancy_limit_warps"
_NCU_COLUMNS = {"Kernel Name", _TIME, _COMPUTE, _MEMORY, _OCCUPANCY, _REGISTERS, *_LIMITS, _ALL_WARPS}


def _read_ncu(lines: list[str]) -> Iterator[Launch]:
    """The page `raw` as CSV: a row of names, one of units, one for each launch; messages may stand before them."""
    begins = next((number for number, line in enumerate(lines) if line.startswith('"ID"')), len(lines))
    rows = _rows(lines[begins:], _NCU_COLUMNS)
    units = next(rows, {})
    for row in rows:
        time = _number(row.get(_TIME))
        if time is not None and (name := _name(row.get("Kernel Name"))):
            registers = _number(row.get(_REGISTERS))
            yield Launch(
                name=name,
                time_us=time * _MICROSECONDS.get(units.get(_TIME) or "", 1e-3),
                compute=_share(row.get(_COMPUTE)),
                memory=_share(row.get(_MEMORY)),
                occupancy=_share(row.get(_OCCUPANCY)),
                registers=None if registers is None else int(registers),
                limiter=_limiter(row),
            )


def _limiter(row: Mapping[str, str]) -> Limiter | None:
    limits = {_number(row.get(metric)): word for metric, word in reversed(_LIMITS.items())}
    least = min((limit for limit in limits if limit is not None), default=None)
    if least is None or least >= (_number(row.get(_ALL_WARPS)) or 0):
        return None
    return limits[least]


# ---------------------------------------------------------------------- rocprofv3

_ROCPROF_COLUMNS = {"Kind", "Kernel_Name", "Start_Timestamp", "End_Timestamp", "VGPR_Count"}


def _read_rocprof(lines: list[str]) -> Iterator[Launch]:
    """`kernel_trace.csv`: a row for each dispatch, with timestamps in nanoseconds."""
    for row in _rows(lines, _ROCPROF_COLUMNS):
        begins, ends = _number(row.get("Start_Timestamp")), _number(row.get("End_Timestamp"))
        name = _name(row.get("Kernel_Name"))
        if row.get("Kind") == "KERNEL_DISPATCH" and name and begins is not None and ends is not None and begins <= ends:
            registers = _number(row.get("VGPR_Count"))
            yield Launch(
                name=name, time_us=(ends - begins) / 1e3, registers=None if registers is None else int(registers)
            )


# ---------------------------------------------------------------------- rows and cells


def _rows(lines: list[str], columns: Collection[str]) -> Iterator[Mapping[str, str]]:
    """The first rows of a CSV, by its header, in those of these `columns` that it has.

    Not `csv.DictReader`: that fills up short rows, so that a small table can ask for columns times rows.

    Raises:
        ValueError: more columns than any profiler has.
    """
    reader = csv.reader(lines, strict=True)
    header = next(reader, [])
    if len(header) > _MAX_COLUMNS:
        raise ValueError("too many columns")
    places = {name: place for place, name in enumerate(header) if name in columns}
    for row in islice(reader, _MAX_ROWS):
        if len(row) == len(header):
            yield {name: row[place] for name, place in places.items()}


def _name(cell: str | None) -> str:
    return (cell or "").strip()[:_MAX_NAME].encode(errors="replace").decode()


def _number(cell: str | None) -> float | None:
    """A number as both write it, `1,234.5`; None for `n/a`, and for what nobody could have counted."""
    if not cell or not re.fullmatch(r"[0-9][0-9,]{0,25}(\.[0-9]{1,20})?(e[+-]?[0-9]{1,2})?", cell):
        return None
    number = float(cell.replace(",", ""))
    return number if number < 1e20 else None


def _share(cell: str | None) -> float | None:
    percent = _number(cell)
    return None if percent is None or percent > 200 else percent / 100


NCU = Profiler(
    name="ncu",
    options=(
        "--set", "full", "--profile-from-start", "off", "--launch-count", str(_MAX_LAUNCHES), "--target-processes",
        "application-only", "--clock-control", "none", "--force-overwrite", "--export", f"{FOLDER}/report",
    ),
    export=("--import", f"{FOLDER}/report.ncu-rep", "--page", "raw", "--csv", "--print-units", "base"),
    table="table.csv",
    report="report.ncu-rep",
    read=_read_ncu,
    places=("usr/local/cuda/bin/ncu", "opt/nvidia/nsight-compute/*/ncu"),
    folders=("/opt/nvidia/nsight-compute",),
    install="install NVIDIA's package cuda-nsight-compute, or put `ncu` into the judge's PATH",
    troubles={
        "ERR_NVGPUCTRPERM": f"ncu may not read the GPU's counters (ERR_NVGPUCTRPERM); {COUNTERS_FOR_ALL}",
        "No kernels were profiled": "ncu saw no kernel: the call launches none on the GPU",
    },
)  # fmt: skip
# The machine's clocks are left as they are (`none`): to set them takes rights, and moves the times of whoever is next.

ROCPROF = Profiler(
    name="rocprofv3",
    options=(
        "--kernel-trace", "--marker-trace", "--selected-regions", "--output-format", "csv",
        "--output-directory", FOLDER, "--output-file", "profile", "--",
    ),
    table="profile_kernel_trace.csv",
    report="profile_kernel_trace.csv",
    read=_read_rocprof,
    places=("opt/rocm/bin/rocprofv3", "opt/rocm-*/bin/rocprofv3"),
    folders=(),
    install="install ROCm's package rocprofiler-sdk, or put `rocprofv3` into the judge's PATH",
    troubles={},
)  # fmt: skip

PROFILERS: dict[Vendor, Profiler] = {"nvidia": NCU, "amd": ROCPROF}
