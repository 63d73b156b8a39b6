"""Which of a machine's GPUs is judged on, and what a player behind walls must see of it: from folders alone.

    NVIDIA   /dev/nvidia0  nvidiactl  nvidia-uvm       /proc/driver/nvidia/gpus/<bus>/information: minor, UUID
    AMD      /dev/kfd  /dev/dri/renderD128             /sys/class/kfd/kfd/topology/nodes/<n>/properties: minor, id

Only the assigned GPUs' own nodes are bound, so that all others do not exist in there.  Assigned are those that
CUDA_VISIBLE_DEVICES (ROCR_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES) of the judge names, by number or by id, else all; a
task for one GPU gets the first of them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Literal

Vendor = Literal["nvidia", "amd"]

_NVIDIA = "proc/driver/nvidia/gpus"
_AMD = "sys/class/kfd/kfd/topology/nodes"
_SYSTEM = ("/sys/bus/pci", "/sys/devices")
_AMD_SYSTEM = ("/sys/class/kfd", "/sys/class/drm", *_SYSTEM)
"""Where the vendors' libraries look for devices and what they are near to; read-only inside."""
_FOUND_ANYWAY = ("usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64", "usr/lib")
"""Where the loader looks without being told."""
_DRIVER_FOLDERS = ("usr/local/nvidia/lib64", "usr/local/nvidia/lib", "usr/lib/wsl/lib", "run/opengl-driver/lib")
"""Where containers, WSL and NixOS have the driver's libraries."""
_VARIABLES = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
_CONTROL = 255
"""The minor of /dev/nvidiactl."""
_OPENED: Mapping[Vendor, str] = {
    "nvidia": "give the module nvidia the option NVreg_DeviceFileMode=0666",
    "amd": """write KERNEL=="kfd", MODE="0666" and SUBSYSTEM=="drm", KERNEL=="renderD*", MODE="0666" into """
    "/etc/udev/rules.d/70-amdgpu.rules",
}
"""What opens the nodes to all users, and for good: a chmod is undone by the next start."""


@dataclass(frozen=True, kw_only=True)
class GpuNode:
    """One GPU as the machine's folders show it; `id` is what its vendor's library calls it, "" if nothing says."""

    vendor: Vendor
    node: str
    id: str = ""


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What the walls let through: nodes to bind, folders to bind read-only, variables to set."""

    nodes: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


def find_gpus(root: Path = Path("/")) -> list[GpuNode]:
    """All GPUs of a machine, in the order of their bus."""
    return list(_nvidia(root)) or list(_amd(root))


def _nvidia(root: Path) -> Iterator[GpuNode]:
    """As the driver lists them; by their nodes alone where a container hides that."""
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
        facts = dict(re.findall(r"^(\w+) (\d+)$", _read(folder / "properties"), re.MULTILINE))
        node = f"renderD{facts.get('drm_render_minor', '')}"
        if facts.get("simd_count", "0") != "0" and (root / "dev/dri" / node).exists():
            unique = int(facts.get("unique_id", "0"))
            yield GpuNode(vendor="amd", node=f"/dev/dri/{node}", id=f"GPU-{unique:016x}" if unique else "")


def assigned(gpus: list[GpuNode], environment: Mapping[str, str]) -> list[GpuNode]:
    """The GPUs that are judged on, in the order of the variable; as for CUDA, what it names in vain ends the list."""
    for name in _VARIABLES:
        if name in environment:
            named = (_named(wanted.strip(), gpus) for wanted in environment[name].split(","))
            return list(dict.fromkeys(gpu for gpu in takewhile(lambda gpu: gpu is not None, named) if gpu))
    return gpus


def find_slice(environment: Mapping[str, str]) -> str:
    """The slice of a GPU (MIG) that the variable names in the place of a whole one; "" if it names none."""
    named = (wanted.strip() for name in _VARIABLES for wanted in environment.get(name, "").split(","))
    return next((wanted for wanted in named if wanted.startswith("MIG-")), "")


def _named(wanted: str, gpus: list[GpuNode]) -> GpuNode | None:
    if wanted.isdecimal():
        return gpus[int(wanted)] if int(wanted) < len(gpus) else None
    return next((gpu for gpu in gpus if wanted and gpu.id.startswith(wanted)), None)


def shown_of(gpus: Sequence[GpuNode], root: Path = Path("/")) -> Shown:
    """What a player must see to use these GPUs, of one vendor, and no others."""
    own = tuple(gpu.node for gpu in gpus)
    # Without ids they are numbered as they can be opened in there.
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
    if library and library not in _FOUND_ANYWAY:
        environment["LD_LIBRARY_PATH"] = f"/{library}"
        folders = _SYSTEM if library.startswith("usr/") else (*_SYSTEM, f"/{library}")
    return Shown(nodes=("/dev/nvidiactl", "/dev/nvidia-uvm", *own), folders=folders, environment=environment)


def find_driver_library(root: Path = Path("/")) -> str:
    """The folder of NVIDIA's libcuda.so.1, below `root`; "" if it is in none of those that we know."""
    folders = (*_DRIVER_FOLDERS, *_FOUND_ANYWAY)
    return next((folder for folder in folders if (root / folder / "libcuda.so.1").exists()), "")


def find_faults(gpus: Sequence[GpuNode], root: Path = Path("/")) -> list[str]:
    """What keeps a player from using these GPUs, each with the way out; empty if nothing seen here does."""
    vendor = gpus[0].vendor
    faults = [_fault_of(node, root / node.lstrip("/"), vendor) for node in shown_of(gpus, root).nodes]
    faults += [f"{gpu.node} is cut into slices: {WHOLE_GPU}" for gpu in gpus if _is_cut(gpu, root)]
    if vendor == "nvidia" and not find_driver_library(root):
        faults.append("libcuda.so.1 is in no folder that is known here: install the driver's libraries below /usr/lib")
    return [fault for fault in faults if fault]


WHOLE_GPU = "MIG slices are not judged on; give the judge a whole GPU (nvidia-smi -i NUMBER -mig 0, as root)"


def _fault_of(node: str, path: Path, vendor: Vendor) -> str:
    """What keeps a player from opening this node; "" if nothing seen here does."""
    if not path.exists():
        return f"{node} is missing: {_maker_of(node, vendor)}, or give the container this device"
    if os.geteuid() == 0 and path.stat().st_mode & 0o006 != 0o006:
        what = "the players of a judge that root starts are nobody"
        return f"{node} is not open to all users, and {what}: {_OPENED[vendor]}, or start the judge as who may use it"
    # Any other judge's players have its groups.
    if not os.access(path, os.R_OK | os.W_OK):
        return f"{node} is not open to this user: add it to the group that `ls -l {node}` shows, or {_OPENED[vendor]}"
    return ""


def _maker_of(node: str, vendor: Vendor) -> str:
    """What makes a node that is missing.  With -u, nvidia-modprobe makes those of unified memory and no others."""
    if vendor == "amd":
        return "modprobe amdgpu"
    if "uvm" in node:
        return "nvidia-modprobe -c 0 -u, as root"
    return f"nvidia-modprobe -c {_number(node) if node[-1].isdigit() else _CONTROL}, as root"


def _is_cut(gpu: GpuNode, root: Path) -> bool:
    """Whether the driver has instances of it (MIG); by its minor, which is its node's number."""
    return any((root / f"proc/driver/nvidia/capabilities/gpu{_number(gpu.node)}/mig").glob("gi*"))


def _number(name: str) -> int:
    digits = re.search(r"\d+$", name)
    return int(digits[0]) if digits else -1


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # of another user's
        return ""
