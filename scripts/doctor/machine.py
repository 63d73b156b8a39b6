"""Check what this machine can do.

The checks try things instead of guessing from versions: they start a player in the sandbox, and write and read its
memory.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from scripts.doctor.finding import Availability, Finding

if TYPE_CHECKING:
    from harness.gpu.gpu_nodes import GpuNode, Vendor
    from harness.sandbox.player_handle import PlayerHandle

_TENSOR_BYTES = 4096


def examine() -> list[Finding]:
    """All findings; without torch, checks that need it are skipped."""
    findings = [_python(), _torch()]
    if findings[-1].state is Availability.OK:
        findings += [_walls(), *_cgroups()]
    return [*findings, _user(), _cores(), *_quiet(), *map(_compiler, _COMPILERS), *_gpus(), _browser()]


def _python() -> Finding:
    version = f"{platform.python_version()} in {sys.prefix}"
    return Finding(name="Python", state=Availability.OK, detail=version)


def _torch() -> Finding:
    try:
        version = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        remedy = "make setup, or pip install torch numpy"
        return Finding(name="torch", state=Availability.MISSING, detail="not installed", remedy=remedy)
    return Finding(name="torch", state=Availability.OK, detail=version)


def _walls() -> Finding:
    from harness.records.errors import JudgeError
    from harness.records.verdict import Foul
    from harness.sandbox.sandbox import PlayerFiles, Sandbox, find_faults

    if faults := find_faults():
        return Finding(name="sandbox", state=Availability.MISSING, detail="no sandbox", remedy="; ".join(faults))
    try:
        with Sandbox("bubblewrap", memory_gib=1) as sandbox:
            sandbox.warm_parent.await_warmth()
            began = time.perf_counter()
            with sandbox.seat(PlayerFiles(name="doctor", files={})) as player:
                seconds = time.perf_counter() - began
                _cross_border(player)
    except (JudgeError, Foul) as error:
        remedy = "Linux 5.11 or later, with user namespaces"
        return Finding(name="sandbox", state=Availability.MISSING, detail=str(error), remedy=remedy)
    except OSError as error:
        remedy = "allow tracing of own processes: kernel.yama.ptrace_scope at most 1; in a container, CAP_SYS_PTRACE"
        detail = f"a player's memory is not accessible: {error.strerror}"
        return Finding(name="sandbox", state=Availability.MISSING, detail=detail, remedy=remedy)
    detail = f"bubblewrap; a new player starts in {seconds * 1e3:.0f} ms"
    return Finding(name="sandbox", state=Availability.OK, detail=detail)


def _cross_border(player: PlayerHandle) -> None:
    """Have a player allocate a tensor, stop it, and write and read the tensor's memory, as every call does.

    Raises:
        OSError: this machine does not permit it.
        JudgeError: the bytes read differ from those written.
    """
    from harness.gpu.cpu import read_memory, write_memory
    from harness.inside.protocol import Laid
    from harness.records.errors import JudgeError

    player.send({"do": "lay", "tree": {"tensor": 0}, "tensors": [("uint8", (_TENSOR_BYTES,), (1,))]})
    laid = player.answer(time.monotonic() + 20, "allocating a tensor took over 20 s")
    player.stop()
    if not isinstance(laid, Laid):
        raise JudgeError(f"a player could not allocate a tensor: {laid}")
    written = ctypes.create_string_buffer(os.urandom(_TENSOR_BYTES), _TENSOR_BYTES)
    read = ctypes.create_string_buffer(_TENSOR_BYTES)
    write_memory(player.pid, laid.addresses[0], ctypes.addressof(written), _TENSOR_BYTES)
    read_memory(player.pid, laid.addresses[0], ctypes.addressof(read), _TENSOR_BYTES)
    if read.raw != written.raw:
        raise JudgeError("bytes read from a player's memory differ from those written")


_DELEGATION = (
    "a delegated cgroup: systemd-run --user --scope -p Delegate=yes pullrank ..., or in a service's unit Delegate=yes "
    "and DelegateSubgroup=judge"
)


def _cgroups() -> Iterator[Finding]:
    from harness.sandbox import cgroup
    from harness.sandbox.freezer import find_cgroup

    group = find_cgroup()
    if group:
        group.remove()
    controllers = {word for base in cgroup.find_bases() for word in cgroup.controllers(base)}
    yield _freezer(str(group.folder.parent) if group else None)
    yield _memory(limited=group is not None and group.limits_memory, could_be="memory" in controllers)


def _freezer(place: str | None) -> Finding:
    if place:
        return Finding(
            name="freezer", state=Availability.OK, detail=f"cgroup v2 at {place}: no process inside can undo a stop"
        )
    detail = "players are stopped by signals: each call takes longer, and the bound on its time is wider"
    return Finding(
        name="freezer", state=Availability.LIMITED, detail=detail, remedy=f"run as root, or in {_DELEGATION}"
    )


def _memory(*, limited: bool, could_be: bool) -> Finding:
    if limited:
        return Finding(
            name="memory",
            state=Availability.OK,
            detail="limited by cgroup: a player over the limit is killed, whatever kind of memory it uses",
        )
    detail = "watched, not limited: pages and memfds count, other memory only once the machine runs out"
    remedy = (
        _DELEGATION
        if could_be
        else "cgroup v2 with its memory controller: boot with systemd.unified_cgroup_hierarchy=1"
    )
    return Finding(name="memory", state=Availability.LIMITED, detail=detail, remedy=remedy)


def _user() -> Finding:
    if os.geteuid() == 0:
        return Finding(name="user", state=Availability.OK, detail="root; players run as another user")
    return Finding(name="user", state=Availability.OK, detail=f"unprivileged, uid {os.geteuid()}")


def _cores() -> Finding:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if cores > 1:
        return Finding(
            name="cores", state=Availability.OK, detail=f"{cores}: one for the referee, {cores - 1} for players"
        )
    return Finding(
        name="cores",
        state=Availability.LIMITED,
        detail="one for referee and players: times are imprecise",
        remedy="two cores or more",
    )


def _quiet() -> Iterator[Finding]:
    from harness.referee.machine import busy_share

    if sys.platform == "linux":
        busy = busy_share()
        if busy is None:
            return
        yield Finding(
            name="quiet",
            state=Availability.OK if busy <= 0.1 else Availability.LIMITED,
            detail=f"{busy:.0%} of the cores are busy with other work",
            remedy="" if busy <= 0.1 else "stop other work for more precise times",
        )


_COMPILERS = {
    "g++": "for submissions with inline C++: apt install g++",
    "ninja": "for submissions with inline C++: apt install ninja-build",
    "nvcc": "for CUDA C++: NVIDIA's CUDA toolkit",
}


def _compiler(name: str) -> Finding:
    path = shutil.which(name)
    if not path:
        return Finding(name=name, state=Availability.OPTIONAL, detail="not installed", remedy=_COMPILERS[name])
    return Finding(name=name, state=Availability.OK, detail=_first_line_with_digits([path, "--version"]) or path)


def _gpus() -> Iterator[Finding]:
    """The GPUs, from the device nodes that players need to torch's view."""
    from harness.gpu.gpu_nodes import WHOLE_GPU, assigned, find_driver_library, find_faults, find_gpus, find_slice

    gpus = find_gpus()
    ours = assigned(gpus, os.environ)
    if named := find_slice(os.environ):
        yield Finding(
            name="GPU", state=Availability.LIMITED, detail=f"the judge is set to use {named}", remedy=WHOLE_GPU
        )
        return
    if not ours:
        detail = f"none of {len(gpus)} is in CUDA_VISIBLE_DEVICES" if gpus else "none found"
        yield Finding(name="GPU", state=Availability.OPTIONAL, detail=detail, remedy="CPU boards need none")
        return
    library = f", driver in /{find_driver_library()}" if find_driver_library() else ""
    faults, gpu = find_faults(ours), ours[0]
    yield from map(_gpu_facts, ours)
    for one in ours:
        yield from _compute_mode(one)
    yield Finding(
        name="GPU",
        state=Availability.LIMITED if faults else Availability.OK,
        detail=f"{gpu.vendor} at {gpu.node}, {gpu.id or 'without an id'}{library}; {len(ours)} of {len(gpus)} judge",
        remedy="; ".join(faults),
    )
    yield _profiler(gpu.vendor)
    yield _cuda()


def _profiler(vendor: Vendor, root: Path = Path("/")) -> Finding:
    """The vendor's profiler, which `profile` runs in the sandbox as an unprivileged user."""
    from harness.gpu.vendors import COUNTERS_FOR_ALL, PROFILERS, why_refused

    tool = PROFILERS[vendor]
    if not tool.path:
        detail = "not installed: profiles come from torch only"
        return Finding(name=tool.name, state=Availability.OPTIONAL, detail=detail, remedy=tool.install)
    if refused := why_refused(vendor, root):
        detail = f"{tool.path}, but {refused}"
        return Finding(name=tool.name, state=Availability.LIMITED, detail=detail, remedy=COUNTERS_FOR_ALL)
    return Finding(name=tool.name, state=Availability.OK, detail=tool.path)


def _gpu_facts(gpu: GpuNode) -> Finding:
    from harness.gpu.gpu_facts import read_gpu

    if not (facts := read_gpu(gpu)):
        remedy = "install the driver's libnvidia-ml.so.1, or put nvidia-smi in PATH (AMD: rocminfo)"
        return Finding(name="GPU's state", state=Availability.LIMITED, detail="cannot be queried", remedy=remedy)
    detail = ", ".join(filter(None, (facts.name, f"driver {facts.driver}" if facts.driver else "", facts.state)))
    state = Availability.LIMITED if facts.trouble else Availability.OK
    return Finding(name="GPU's state", state=state, detail=detail, remedy=facts.trouble)


def _compute_mode(gpu: GpuNode) -> Iterator[Finding]:
    """Whether several processes may compute on the GPU, as referee and player must; nothing if it is unknown."""
    if gpu.vendor == "nvidia":
        which = [f"--id={gpu.id}"] if gpu.id else []
        said = _output(["nvidia-smi", "--query-gpu=compute_mode", "--format=csv,noheader", *which])
        if mode := next(iter(said.splitlines()), "").strip():
            yield Finding(
                name="GPU's mode",
                state=Availability.OK if mode == "Default" else Availability.LIMITED,
                detail=f"compute mode {mode}",
                remedy="" if mode == "Default" else "nvidia-smi -c 0, as root: referee and player share the GPU",
            )


def _cuda() -> Finding:
    """Check in a subprocess, so that this process stays free of torch, whose import takes seconds."""
    code = "import torch; print(torch.cuda.get_device_name(0))"
    if name := _output([sys.executable, "-c", code], seconds=120):
        return Finding(name="torch's GPU", state=Availability.OK, detail=name)
    remedy = (
        "install a torch built for this GPU's driver; `python -c 'import torch; torch.cuda.init()'` shows the reason"
    )
    return Finding(
        name="torch's GPU", state=Availability.LIMITED, detail="torch finds no GPU: CPU boards only", remedy=remedy
    )


def _browser() -> Finding:
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path:
        return Finding(name="chromium", state=Availability.OK, detail=path)
    remedy = "for the tests of the site: apt install chromium"
    return Finding(name="chromium", state=Availability.OPTIONAL, detail="not installed", remedy=remedy)


def _first_line_with_digits(command: list[str]) -> str:
    lines = _output(command).splitlines()
    return next((line for line in reversed(lines) if "release" in line), next(iter(lines), ""))


def _output(command: list[str], seconds: float = 10) -> str:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=seconds, stdin=subprocess.DEVNULL, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()
