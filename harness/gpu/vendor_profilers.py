"""One interface to the GPU vendors' profilers: find a profiler, call it, and read its output.

    ncu         NVIDIA's Nsight Compute   --set full writes a .ncu-rep; the table is its page `raw` as CSV
    rocprofv3   AMD's ROCprofiler-SDK     --kernel-trace writes a CSV

They run in the sandbox, around a player (`profiled_player`), with the same rights as the player, so the driver must let
all users read its counters.  Their output is parsed as hostile text, because the submission may have written it.
"""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Literal, Self

from harness.gpu.gpu_nodes import Vendor, read_text
from harness.inside.profiled_player import FOLDER
from harness.records.counters import MAX_KERNELS, MAX_REPORT, Counters, Kernel, LaunchFilter, Limiter
from harness.records.errors import SubmissionError

MAX_TABLE = 8 << 20
_MAX_COLUMNS = 10_000
_MAX_ROWS = 10_000
_MAX_HEADER = 100
_MAX_NAME = 200
_LAST_WORDS = 160

PARAMS = Path("proc/driver/nvidia/params")
COUNTERS_FOR_ALL = (
    "let all users read the GPU's counters: put `options nvidia NVreg_RestrictProfilingToAdminUsers=0` into a file in "
    "/etc/modprobe.d/ on the machine itself, then reload the driver or reboot"
)


@dataclass(frozen=True, kw_only=True)
class Launch:
    """One launch of a kernel, from a profiler's table."""

    name: str
    time_us: float
    compute: float | None = None
    memory: float | None = None
    occupancy: float | None = None
    registers: int | None = None
    limiter: Limiter | None = None


@dataclass(frozen=True, kw_only=True)
class Profiler:
    """A vendor's profiler: `options` precede the player's command, `export` are the options that print the table.

    `table` and `report` are files that it writes.  `places` are its usual paths if it is not in the PATH.  It needs to
    see the `folders` of this machine.  `troubles` maps words in its output to the problem and the way out.
    `launches` says which launches of a call it profiles; None if it cannot choose.
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
    launches: LaunchFilter | None = None

    @property
    def path(self) -> str:
        """Its path on this machine; "" if it is not installed."""
        near = (str(path) for place in self.places for path in sorted(Path("/").glob(place), reverse=True))
        return shutil.which(self.name) or next((path for path in near if os.access(path, os.X_OK)), "")

    @property
    def shown(self) -> tuple[str, ...]:
        """The paths that players must also see: its own folder, or only the tool if it is in a shared folder."""
        if not self.path:
            return ()
        path = Path(self.path).resolve()
        is_at_home = any(path.match(f"/{place}") for place in self.places)
        shown = (*self.folders, str(path.parent if is_at_home else path))
        return tuple(place for place in shown if os.path.exists(place) and not Path(place).is_relative_to("/usr"))

    @property
    def order(self) -> dict[str, object]:
        """Its part of the order to `profiled_player.start`, with a resolved path: players may not see symlinks."""
        path = str(Path(self.path).resolve())
        return {
            "profiler": [path, *(self.launches.options if self.launches else ()), *self.options],
            "export": [path, *self.export] if self.export else [],
            "table": self.table,
            "report": self.report,
            "limits": {"table": MAX_TABLE, "report": MAX_REPORT},
        }

    def require_choice(self) -> None:
        """Raise SubmissionError if it cannot choose launches: it is not ncu, or ncu is not installed."""
        if not self.launches:
            raise SubmissionError(f"only NVIDIA's ncu can choose launches, and this GPU's profiler is {self.name}")
        if not self.path:
            raise SubmissionError(f"launches are chosen by ncu, which is not on this machine: {self.install}")

    def filtered(self, launches: LaunchFilter) -> Self:
        """The same, for some of a call's launches; unchanged if it cannot choose any."""
        if not self.launches:
            return self
        no_kernels = {_NO_KERNELS: f"ncu found no {launches.in_words}"} if launches.in_words else {}
        return replace(self, launches=launches, troubles={**self.troubles, **no_kernels})

    def missing(self) -> Counters:
        return Counters(tool=self.name, trouble=f"{self.name} is not on the judge's machine: {self.install}")

    def counters_of(self, table: bytes, report_bytes: int, log: str, why: str) -> Counters:
        """Parse its table into counters.

        Args:
            log: the output of the profiler and of the submission.
            why: the reason to give if there are no kernels and the log has no known message.
        """
        try:
            kernels = _kernels_of(self.read(table.decode("utf-8", "replace").split("\n")))
        except (csv.Error, ValueError):
            kernels, why = (), f"{self.name} wrote an invalid table"
        if kernels:
            chosen = None if self.launches == LaunchFilter() else self.launches
            return Counters(tool=self.name, kernels=kernels, report_bytes=report_bytes, chosen=chosen)
        known = (says for words, says in self.troubles.items() if words in log)
        return Counters(tool=self.name, trouble=next(known, f"{self.name} reported no kernels: {why}")[:500])


class ProfilerOutput:
    """A profiled player's output: the lengths of table and report, then both.  Hostile bytes."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, chunk: bytes) -> None:
        # Output beyond the limit is forged: read it, so that the writer does not block, and discard it.
        self._bytes += chunk[: MAX_TABLE + MAX_REPORT + _MAX_HEADER - len(self._bytes)]

    def open(self) -> tuple[bytes, bytes]:
        """Table and report; both empty if the output is malformed."""
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
    """The last line of a log, or ncu's last error, as the end of a sentence."""
    lines = [" ".join(line.split()) for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("==ERROR==")]
    return f", after `{(errors or lines)[-1][:_LAST_WORDS]}`" if lines else ""


def why_refused(vendor: Vendor, root: Path = Path("/")) -> str:
    """Why players may not read a GPU's counters, as far as known before trying; "" if no reason is known."""
    if vendor == "amd":
        return ""
    is_refused = re.search(r"^RmProfilingAdminOnly: 1$", read_text(root / PARAMS), re.MULTILINE)
    return "only root may read the GPU's counters" if is_refused else ""


def _kernels_of(launches: Iterable[Launch]) -> tuple[Kernel, ...]:
    """Group launches by kernel name, longest total time first."""
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
    """The mean of the known shares, weighted by time."""
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
"""Metrics that say how many blocks fit on a multiprocessor by each resource."""
_ALL_WARPS = "launch__occupancy_limit_warps"
_NO_KERNELS = "No kernels were profiled"
"""What ncu prints if no launch was left to profile."""
_NCU_COLUMNS = {"Kernel Name", _TIME, _COMPUTE, _MEMORY, _OCCUPANCY, _REGISTERS, *_LIMITS, _ALL_WARPS}


def _read_ncu(lines: list[str]) -> Iterator[Launch]:
    """Parse the page `raw` as CSV: a row of names, one of units, one for each launch.  Messages may precede them."""
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
    """Parse `kernel_trace.csv`: a row for each dispatch, with timestamps in nanoseconds."""
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
    """The first rows of a CSV with a header, reduced to the given `columns`.

    Not `csv.DictReader`: it pads short rows, so a small table could expand to columns times rows.

    Raises:
        ValueError: the table has more columns than any profiler writes.
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
    """A number as both profilers write it, `1,234.5`; None for `n/a` and for impossibly large numbers."""
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
        "--set", "full", "--profile-from-start", "off", "--target-processes", "application-only",
        "--clock-control", "none", "--force-overwrite", "--export", f"{FOLDER}/report",
    ),
    export=("--import", f"{FOLDER}/report.ncu-rep", "--page", "raw", "--csv", "--print-units", "base"),
    table="table.csv",
    report="report.ncu-rep",
    read=_read_ncu,
    places=("usr/local/cuda/bin/ncu", "opt/nvidia/nsight-compute/*/ncu"),
    folders=("/opt/nvidia/nsight-compute",),
    install="install NVIDIA's package cuda-nsight-compute, or add `ncu` to the judge's PATH",
    troubles={
        "ERR_NVGPUCTRPERM": f"ncu may not read the GPU's counters (ERR_NVGPUCTRPERM); {COUNTERS_FOR_ALL}",
        _NO_KERNELS: "ncu found no kernels: the call launches none on the GPU",
    },
    launches=LaunchFilter(),
)  # fmt: skip
# Clock control is `none`: setting clocks needs rights, and would change the times of the next judging.

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
    install="install ROCm's package rocprofiler-sdk, or add `rocprofv3` to the judge's PATH",
    troubles={},
)  # fmt: skip

PROFILERS: dict[Vendor, Profiler] = {"nvidia": NCU, "amd": ROCPROF}
