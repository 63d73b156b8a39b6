"""Find the machine's GPUs that are assigned to the judge, and the files that a player needs for them.

    NVIDIA   /dev/nvidia0  nvidiactl  nvidia-uvm       /proc/driver/nvidia/gpus/<bus>/information: minor, UUID
    AMD      /dev/kfd  /dev/dri/renderD128             /sys/class/kfd/kfd/topology/nodes/<n>/properties: minor, id

The sandbox binds only the nodes of the assigned GPUs, so all other GPUs do not exist in it.  The judge's
CUDA_VISIBLE_DEVICES (ROCR_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES) assigns GPUs by number or id; without it, all are
assigned.  A task for one GPU gets the first of them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Literal

from harness.records.errors import NoGpuError

Vendor = Literal["nvidia", "amd"]

_NVIDIA = "proc/driver/nvidia/gpus"
_AMD = "sys/class/kfd/kfd/topology/nodes"
_SYSTEM = ("/sys/bus/pci", "/sys/devices")
_AMD_SYSTEM = ("/sys/class/kfd", "/sys/class/drm", *_SYSTEM)
"""Where the vendors' libraries look for devices and their topology; read-only in the sandbox."""
_LOADER_FOLDERS = ("usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64", "usr/lib")
"""The loader's default folders."""
_DRIVER_FOLDERS = ("usr/local/nvidia/lib64", "usr/local/nvidia/lib", "usr/lib/wsl/lib", "run/opengl-driver/lib")
"""The driver's libraries in containers, WSL and NixOS."""
_CHOICES: Mapping[Vendor, tuple[tuple[str, ...], ...]] = {
    "nvidia": (("CUDA_VISIBLE_DEVICES",),),
    "amd": (("ROCR_VISIBLE_DEVICES",), ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")),
}
"""The variables by which a vendor's libraries choose GPUs.  The first that is set counts; HIP chooses among the GPUs
that ROCr has chosen, and numbers them anew."""
CHOOSING = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
_CONTROL = 255
"""The minor of /dev/nvidiactl."""
_ACCESS_REMEDIES: Mapping[Vendor, str] = {
    "nvidia": "set NVreg_DeviceFileMode=0666 for the kernel module nvidia",
    "amd": """write KERNEL=="kfd", MODE="0666" and SUBSYSTEM=="drm", KERNEL=="renderD*", MODE="0666" into """
    "/etc/udev/rules.d/70-amdgpu.rules",
}
"""How to give all users access to the nodes permanently: a reboot undoes a chmod."""


@dataclass(frozen=True, kw_only=True)
class GpuNode:
    """One GPU, found in the file system; `id` is its id in the vendor's library, "" if unknown."""

    vendor: Vendor
    node: str
    id: str = ""


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What the sandbox shows: nodes to bind, folders to bind read-only, variables to set."""

    nodes: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


def find_gpus(root: Path = Path("/")) -> list[GpuNode]:
    """All GPUs of a machine, in bus order."""
    return list(_nvidia(root)) or list(_amd(root))


def _nvidia(root: Path) -> Iterator[GpuNode]:
    """NVIDIA's GPUs from the driver's list, or from their nodes alone if a container hides the list."""
    listed = sorted((root / _NVIDIA).glob("*/information"))
    if not listed:
        nodes = (path.name for path in (root / "dev").glob("nvidia*"))
        for node in sorted((name for name in nodes if re.fullmatch(r"nvidia\d+", name)), key=_number):
            yield GpuNode(vendor="nvidia", node=f"/dev/{node}")
        return
    for path in listed:
        facts = dict(re.findall(r"^([\w ]+?):[ \t]+(\S.*?)\s*$", path.read_text(), re.MULTILINE))
        node = f"nvidia{facts.get('Device Minor', '')}"
        if (root / "dev" / node).exists():
            known = re.fullmatch(r"GPU-[0-9a-f-]{36}", facts.get("GPU UUID", ""))
            yield GpuNode(vendor="nvidia", node=f"/dev/{node}", id=known[0] if known else "")


def _amd(root: Path) -> Iterator[GpuNode]:
    for folder in sorted((root / _AMD).glob("*"), key=lambda path: _number(path.name)):
        facts = dict(re.findall(r"^(\w+) (\d+)$", read_text(folder / "properties"), re.MULTILINE))
        node = f"renderD{facts.get('drm_render_minor', '')}"
        if facts.get("simd_count", "0") != "0" and (root / "dev/dri" / node).exists():
            unique = int(facts.get("unique_id", "0"))
            yield GpuNode(vendor="amd", node=f"/dev/dri/{node}", id=f"GPU-{unique:016x}" if unique else "")


def assigned(gpus: list[GpuNode], environment: Mapping[str, str]) -> list[GpuNode]:
    """The GPUs assigned to the judge, in the variables' order.  As in CUDA, an unknown name ends the list."""
    for names in _CHOICES[gpus[0].vendor] if gpus else ():
        if name := _choice(names, environment):
            gpus = _chosen(environment[name], gpus)
    return gpus


def _choice(names: Sequence[str], environment: Mapping[str, str]) -> str:
    """The variable that counts; "" if none does.  An empty one hides all GPUs, but HIP ignores it."""
    is_of_hip = "HIP_VISIBLE_DEVICES" in names
    return next((name for name in names if name in environment and (environment[name] or not is_of_hip)), "")


def _chosen(names: str, gpus: list[GpuNode]) -> list[GpuNode]:
    named = (_named(wanted.strip(), gpus) for wanted in names.split(","))
    return list(dict.fromkeys(gpu for gpu in takewhile(lambda gpu: gpu is not None, named) if gpu))


def find_slice(environment: Mapping[str, str]) -> str:
    """The first MIG slice that a variable names instead of a whole GPU; "" if there is none."""
    named = (wanted.strip() for name in CHOOSING for wanted in environment.get(name, "").split(","))
    return next((wanted for wanted in named if wanted.startswith("MIG-")), "")


def _named(wanted: str, gpus: list[GpuNode]) -> GpuNode | None:
    if wanted.isdecimal():
        return gpus[int(wanted)] if int(wanted) < len(gpus) else None
    return next((gpu for gpu in gpus if wanted and gpu.id.startswith(wanted)), None)


def shown_of(gpus: Sequence[GpuNode], root: Path = Path("/")) -> Shown:
    """What a player must see to use only these GPUs, which are all of one vendor."""
    own = tuple(gpu.node for gpu in gpus)
    # Without an id, use the GPU's number among those visible in the sandbox.
    names = ",".join(gpu.id or str(number) for number, gpu in enumerate(gpus))
    if gpus[0].vendor == "amd":
        rocm = tuple(sorted({str(path) for path in (root / "opt").glob("rocm*")})) if root == Path("/") else ()
        environment = {"ROCR_VISIBLE_DEVICES": names}
        return Shown(nodes=("/dev/kfd", *own), folders=(*_AMD_SYSTEM, *rocm), environment=environment)
    environment = {
        "CUDA_VISIBLE_DEVICES": names,
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_CACHE_PATH": "/cache/cuda",
    }
    library = find_driver_library(root)
    folders: tuple[str, ...] = _SYSTEM
    if library and library not in _LOADER_FOLDERS:
        environment["LD_LIBRARY_PATH"] = f"/{library}"
        folders = _SYSTEM if library.startswith("usr/") else (*_SYSTEM, f"/{library}")
    return Shown(nodes=("/dev/nvidiactl", "/dev/nvidia-uvm", *own), folders=folders, environment=environment)


def find_driver_library(root: Path = Path("/")) -> str:
    """The folder of NVIDIA's libcuda.so.1, below `root`; "" if it is in none of the known folders."""
    folders = (*_DRIVER_FOLDERS, *_LOADER_FOLDERS)
    return next((folder for folder in folders if (root / folder / "libcuda.so.1").exists()), "")


def find_faults(gpus: Sequence[GpuNode], root: Path = Path("/")) -> list[str]:
    """What prevents players from using these GPUs, each with the way out; empty if nothing is found."""
    vendor = gpus[0].vendor
    faults = [_fault_of(node, root / node.lstrip("/"), vendor) for node in shown_of(gpus, root).nodes]
    faults += [f"{gpu.node} is partitioned: {NO_MIG}" for gpu in gpus if _has_mig_slices(gpu, root)]
    if vendor == "nvidia" and not find_driver_library(root):
        faults.append("libcuda.so.1 is in none of the known folders: install the driver's libraries below /usr/lib")
    return [fault for fault in faults if fault]


NO_MIG = "MIG slices are not supported; give the judge a whole GPU (as root: nvidia-smi -i NUMBER -mig 0)"


def _fault_of(node: str, path: Path, vendor: Vendor) -> str:
    """What prevents a player from opening this node; "" if nothing is found."""
    if not path.exists():
        return f"{node} is missing: {_maker_of(node, vendor)}, or give the container this device"
    if os.geteuid() == 0 and path.stat().st_mode & 0o006 != 0o006:
        what = "a judge started by root runs players as nobody"
        remedy = f"{_ACCESS_REMEDIES[vendor]}, or start the judge as another user"
        return f"{node} is not open to all users, and {what}: {remedy}"
    # If the judge is not root, its players have its groups.
    if not os.access(path, os.R_OK | os.W_OK):
        remedy = f"add it to the group that `ls -l {node}` shows, or {_ACCESS_REMEDIES[vendor]}"
        return f"{node} is not open to this user: {remedy}"
    return ""


def _maker_of(node: str, vendor: Vendor) -> str:
    """The command that creates a missing node.  With -u, nvidia-modprobe creates only the unified memory nodes."""
    if vendor == "amd":
        return "modprobe amdgpu"
    if "uvm" in node:
        return "nvidia-modprobe -c 0 -u, as root"
    return f"nvidia-modprobe -c {_number(node) if node[-1].isdigit() else _CONTROL}, as root"


def _has_mig_slices(gpu: GpuNode, root: Path) -> bool:
    """Whether the driver has MIG instances of this GPU, found by its minor, which is its node's number."""
    return any((root / f"proc/driver/nvidia/capabilities/gpu{_number(gpu.node)}/mig").glob("gi*"))


def _number(name: str) -> int:
    digits = re.search(r"\d+$", name)
    return int(digits[0]) if digits else -1


def read_text(path: Path) -> str:
    """A file of the kernel's; "" if it is missing or belongs to another user, or if the GPU does not answer."""
    try:
        return path.read_text()
    except OSError:
        return ""


def require_gpus(world_size: int = 1) -> list[GpuNode]:
    """The first `world_size` GPUs assigned to the judge.  Raises NoGpuError if there are fewer."""
    if named := find_slice(os.environ):
        raise NoGpuError(f"the judge is assigned {named[:60]}: {NO_MIG}")
    gpus = assigned(find_gpus(), os.environ)
    if not gpus:
        raise NoGpuError(
            "no GPU found on this machine: there is neither /dev/nvidia0 nor /dev/kfd with a render node, or "
            "CUDA_VISIBLE_DEVICES names none of them; load the driver, or give the container the GPU's devices"
        )
    if len(gpus) < world_size:
        raise NoGpuError(
            f"the task needs {world_size} GPUs, but only {len(gpus)} are assigned to the judge on this machine: give "
            "the board the runner label of machines with enough GPUs"
        )
    return gpus[:world_size]
