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

from harness.records.system import REMEDY, other_system
from scripts.doctor.finding import LIMITED, MISSING, OK, OPTIONAL, Finding, check

if TYPE_CHECKING:
    from harness.gpu.gpu_nodes import GpuNode, Vendor
    from harness.sandbox.player_handle import PlayerHandle

_TENSOR_BYTES = 4096


def examine() -> list[Finding]:
    """All findings; without torch, checks that need it are skipped, and without Linux, all others."""
    findings = [Finding("Python", OK, f"{platform.python_version()} in {sys.prefix}")]
    if name := other_system():
        there = "`pullrank submit FILE --draft` judges a file on the competition's machines"
        return [*findings, Finding("Linux", MISSING, f"this is {name}", f"{REMEDY}; {there}")]
    findings.append(_torch())
    if findings[-1].state is OK:
        findings += [_sandbox(), _core_dumps(), *_cgroups()]
    return [*findings, _user(), _cores(), *_quiet(), *map(_compiler, _COMPILERS), *_gpus(), _browser()]


def _torch() -> Finding:
    remedy = "install pullrank[compete], or pip install torch numpy; in a clone: make setup"
    try:
        version = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return Finding("torch", MISSING, "not installed", remedy)
    try:
        import harness.gpu.cpu  # noqa: F401  it imports torch
    except (ImportError, OSError) as error:
        return Finding("torch", MISSING, f"{version} cannot be imported: {error}", f"install it again: {remedy}")
    return Finding("torch", OK, version)


def _sandbox() -> Finding:
    from harness.records.errors import JudgeError
    from harness.records.verdict import Foul
    from harness.sandbox.sandbox import PlayerFiles, Sandbox
    from harness.sandbox.works_here import find_faults

    if faults := find_faults():
        return Finding("sandbox", MISSING, "no sandbox", "; ".join(faults))
    try:
        with Sandbox("bubblewrap", memory_gib=1) as sandbox:
            sandbox.warm_parent.await_warmth()
            began = time.perf_counter()
            with sandbox.start_player(PlayerFiles(name="doctor", files={})) as player:
                seconds = time.perf_counter() - began
                _access_player_memory(player)
    except (JudgeError, Foul) as error:
        return Finding("sandbox", MISSING, str(error), "Linux 5.11 or later, with user namespaces")
    except OSError as error:
        remedy = "allow tracing of own processes: kernel.yama.ptrace_scope at most 1; in a container, CAP_SYS_PTRACE"
        detail = f"a player's memory is not accessible: {error.strerror}"
        return Finding("sandbox", MISSING, detail, remedy)
    return Finding("sandbox", OK, f"bubblewrap; a new player starts in {seconds * 1e3:.0f} ms")


def _access_player_memory(player: PlayerHandle) -> None:
    """Have a player allocate a tensor, stop it, and write and read the tensor's memory, as every call does.

    Raises:
        OSError: this machine does not permit it.
        JudgeError: the bytes read differ from those written.
    """
    from harness.gpu.cpu import read_memory, write_memory
    from harness.inside.protocol import Allocated
    from harness.records.errors import JudgeError

    player.send({"do": "allocate", "tree": {"tensor": 0}, "tensors": [("uint8", (_TENSOR_BYTES,), (1,))]})
    allocated = player.answer(time.monotonic() + 20, "allocating a tensor took over 20 s")
    player.stop()
    if not isinstance(allocated, Allocated):
        raise JudgeError(f"a player could not allocate a tensor: {allocated}")
    written = ctypes.create_string_buffer(os.urandom(_TENSOR_BYTES), _TENSOR_BYTES)
    read = ctypes.create_string_buffer(_TENSOR_BYTES)
    write_memory(player.pid, allocated.addresses[0], ctypes.addressof(written), _TENSOR_BYTES)
    read_memory(player.pid, allocated.addresses[0], ctypes.addressof(read), _TENSOR_BYTES)
    if read.raw != written.raw:
        raise JudgeError("bytes read from a player's memory differ from those written")


_DELEGATION = (
    "a delegated cgroup: systemd-run --user --scope -p Delegate=yes pullrank ..., or in a service's unit Delegate=yes "
    "and DelegateSubgroup=judge"
)


def _core_dumps() -> Finding:
    from harness.sandbox.sandbox import starts_core_handler

    fault = "the hard limit is 0: a player that crashes starts a program of this machine as root"
    remedy = "a limit of 1: LimitCORE=1 for a service, `ulimit -Hc 1` in root's shell"
    return check("core dumps", fault if starts_core_handler() else "", "a crash starts no program", remedy, LIMITED)


def _cgroups() -> Iterator[Finding]:
    from harness.processes import cgroup
    from harness.processes.freezer import find_cgroup

    group = find_cgroup()
    if group:
        group.remove()
    controllers = {word for base in cgroup.find_bases() for word in cgroup.controllers(base)}
    yield _freezer(str(group.folder.parent) if group else None)
    yield _memory(limited=group is not None and group.limits_memory, could_be="memory" in controllers)


def _freezer(place: str | None) -> Finding:
    fault = "players are stopped by signals: each call takes longer, and the bound on its time is wider"
    good = f"cgroup v2 at {place}: no process inside can undo a stop"
    return check("freezer", "" if place else fault, good, f"run as root, or in {_DELEGATION}", LIMITED)


def _memory(*, limited: bool, could_be: bool) -> Finding:
    fault = "no hard limit: the judge measures a player's memory now and then, and ends it when the machine runs out"
    good = "limited by cgroup: a player over the limit is killed, whatever kind of memory it uses"
    boot = "cgroup v2 with its memory controller: boot with systemd.unified_cgroup_hierarchy=1"
    return check("memory", "" if limited else fault, good, _DELEGATION if could_be else boot, LIMITED)


def _user() -> Finding:
    uid = os.geteuid()
    return Finding("user", OK, f"unprivileged, uid {uid}" if uid else "root; players run as another user")


def _cores() -> Finding:
    cores = len(os.sched_getaffinity(0))
    fault = "one for referee and players: times are imprecise" if cores == 1 else ""
    return check("cores", fault, f"{cores}: one for the referee, {cores - 1} for players", "two cores or more", LIMITED)


def _quiet() -> Iterator[Finding]:
    from harness.referee.machine import busy_share

    if (busy := busy_share()) is not None:
        detail = f"{busy:.0%} of the cores are busy with other work"
        remedy = "stop other work for more precise times"
        yield check("quiet", detail if busy > 0.1 else "", detail, remedy, LIMITED)


_COMPILERS = {
    "g++": "for submissions with inline C++: apt install g++",
    "ninja": "for submissions with inline C++: apt install ninja-build",
    "nvcc": "for CUDA C++: NVIDIA's CUDA toolkit",
}


def _compiler(name: str) -> Finding:
    # pip puts ninja beside the interpreter.
    if not (path := shutil.which(name) or shutil.which(name, path=str(Path(sys.executable).parent))):
        return Finding(name, OPTIONAL, "not installed", _COMPILERS[name])
    lines = _output([path, "--version"]).splitlines()
    version = next((line for line in reversed(lines) if "release" in line), next(iter(lines), ""))
    return Finding(name, OK, version or path)


def _gpus() -> Iterator[Finding]:
    """The GPUs, from the device nodes that players need to torch's view."""
    from harness.gpu.gpu_nodes import NO_MIG, assigned, find_driver_library, find_faults, find_gpus, find_slice

    gpus = find_gpus()
    ours = assigned(gpus, os.environ)
    if named := find_slice(os.environ):
        yield Finding("GPU", LIMITED, f"the judge is set to use {named}", NO_MIG)
        return
    if not ours:
        detail = f"none of {len(gpus)} is in CUDA_VISIBLE_DEVICES" if gpus else "none found"
        yield Finding("GPU", OPTIONAL, detail, "CPU boards need none")
        return
    library = f", driver in /{find_driver_library()}" if find_driver_library() else ""
    faults, gpu = find_faults(ours), ours[0]
    yield from map(_gpu_facts, ours)
    for one in ours:
        yield from _compute_mode(one)
    detail = f"{gpu.vendor} at {gpu.node}, {gpu.id or 'without an id'}{library}; {len(ours)} of {len(gpus)} judge"
    yield Finding("GPU", LIMITED if faults else OK, detail, "; ".join(faults))
    if gpu.vendor == "nvidia":
        yield _sealed_memory()
    yield _profiler(gpu.vendor)
    yield _cuda()


def _profiler(vendor: Vendor, root: Path = Path("/")) -> Finding:
    """The vendor's profiler, which `profile` runs in the sandbox as an unprivileged user."""
    from harness.gpu.vendor_profilers import COUNTERS_FOR_ALL, PROFILERS, why_refused

    tool = PROFILERS[vendor]
    if not tool.path:
        return Finding(tool.name, OPTIONAL, "not installed: profiles come from torch only", tool.install)
    refused = why_refused(vendor, root)
    return check(tool.name, f"{tool.path}, but {refused}" if refused else "", tool.path, COUNTERS_FOR_ALL, LIMITED)


def _gpu_facts(gpu: GpuNode) -> Finding:
    from harness.gpu.gpu_facts import read_gpu

    if not (facts := read_gpu(gpu)):
        remedy = "install the driver's libnvidia-ml.so.1 (AMD: rocminfo)"
        return Finding("GPU's state", LIMITED, "cannot be queried", remedy)
    detail = ", ".join(filter(None, (facts.name, f"driver {facts.driver}" if facts.driver else "", facts.state)))
    return Finding("GPU's state", LIMITED if facts.trouble else OK, detail, facts.trouble)


def _compute_mode(gpu: GpuNode) -> Iterator[Finding]:
    """Whether several processes may compute on the GPU, as referee and player must; nothing if it is unknown."""
    if gpu.vendor == "nvidia":
        which = [f"--id={gpu.id}"] if gpu.id else []
        said = _output(["nvidia-smi", "--query-gpu=compute_mode", "--format=csv,noheader", *which])
        if mode := next(iter(said.splitlines()), "").strip():
            fault = "" if mode == "Default" else f"compute mode {mode}"
            remedy = "nvidia-smi -c 0, as root: referee and player share the GPU"
            yield check("GPU's mode", fault, f"compute mode {mode}", remedy, LIMITED)


def _sealed_memory(library: str = "libcuda.so.1") -> Finding:
    """Whether the referee can share memory of an NVIDIA GPU for one window at a time.  In a subprocess, as the driver's
    context takes hundreds of megabytes."""
    code = f"from harness.inside.cuda_driver import Driver; print('found:' + Driver({library!r}).find_obstacle())"
    said = _output([sys.executable, "-c", code], seconds=60)
    obstacle, _, remedy = said.removeprefix("found:").partition(": ")
    if not said.startswith("found:"):
        obstacle, remedy = "the driver's library does not work", f"`{sys.executable} -c {code!r}` shows the reason"
    return check("sealed memory", obstacle, "the referee can share the GPU's memory with players", remedy, LIMITED)


def _cuda() -> Finding:
    """Check in a subprocess, so that this process stays free of torch, whose import takes seconds."""
    code = "import torch; print(torch.cuda.get_device_name(0))"
    name = _output([sys.executable, "-c", code], seconds=120)
    reason = "`python -c 'import torch; torch.cuda.init()'` shows the reason"
    remedy = f"install a torch built for this GPU's driver; {reason}"
    return check("torch's GPU", "" if name else "torch finds no GPU: CPU boards only", name, remedy, LIMITED)


def _browser() -> Finding:
    path = next(filter(None, map(shutil.which, ("chromium-headless-shell", "chromium"))), "")
    remedy = "for the tests of the site: apt install chromium"
    return check("chromium", "" if path else "not installed", path, remedy, OPTIONAL)


def _output(command: list[str], seconds: float = 10) -> str:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=seconds, stdin=subprocess.DEVNULL, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()
