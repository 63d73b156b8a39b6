"""The GPU nodes that a player sees: from the folder trees of machines to bubblewrap's arguments."""

import json
import os
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from harness.gpu import cuda, gpu_nodes
from harness.gpu.device import CPU, CUDA
from harness.gpu.gpu_nodes import GpuNode, assigned, find_driver_library, find_faults, find_gpus, shown_of
from harness.records.errors import NoGpuError
from harness.sandbox import bubblewrap
from harness.sandbox.sandbox import visible_gpus

INFORMATION = """Model: \t\t NVIDIA H100 80GB HBM3
IRQ:   \t\t 18
GPU UUID: \t {uuid}
Bus Type: \t PCIe
Bus Location: \t {bus}
Device Minor: \t {minor}
GPU Excluded:\t No
"""
UUIDS = [f"GPU-0a1b2c3d-0000-1111-2222-33333333333{n}" for n in range(3)]
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become others")
NVIDIA = ("nvidiactl", "nvidia-uvm", "nvidia-modeset", "nvidia0", "nvidia1", "nvidia10")


def tree(root: Path, *files: str, texts: dict[str, str] | None = None) -> Path:
    for name in (*files, *(texts or {})):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text((texts or {}).get(name, ""))
        path.chmod(0o666)
    return root


def nvidia(root: Path, *, listed: bool = True, library: str = "usr/lib/x86_64-linux-gnu") -> Path:
    """Three GPUs, whose node numbers are in another order than their places on the bus."""
    places = [("0000:01:00.0", 1), ("0000:41:00.0", 0), ("0000:c1:00.0", 10)]
    texts = {
        f"proc/driver/nvidia/gpus/{bus}/information": INFORMATION.format(uuid=uuid, bus=bus, minor=minor)
        for (bus, minor), uuid in zip(places, UUIDS, strict=True)
    }
    nodes = [f"dev/{name}" for name in NVIDIA]
    return tree(root, *nodes, f"{library}/libcuda.so.1", texts=texts if listed else {})


def amd(root: Path) -> Path:
    nodes = {
        0: "cpu_cores_count 64\nsimd_count 0\ndrm_render_minor 0\nunique_id 0\n",
        1: "simd_count 1216\ndrm_render_minor 129\nunique_id 81985529216486895\n",
        2: "simd_count 1216\ndrm_render_minor 128\nunique_id 0\n",
        10: "simd_count 1216\ndrm_render_minor 177\nunique_id 5\n",  # belongs to another container: its node is not here
    }
    texts = {f"sys/class/kfd/kfd/topology/nodes/{n}/properties": text for n, text in nodes.items()}
    return tree(root, "dev/kfd", "dev/dri/renderD128", "dev/dri/renderD129", "dev/dri/card0", texts=texts)


def test_nvidia_gpus_are_listed_in_bus_order_with_their_own_nodes(tmp_path: Path) -> None:
    gpus = find_gpus(nvidia(tmp_path))
    assert [(gpu.node, gpu.id) for gpu in gpus] == [
        ("/dev/nvidia1", UUIDS[0]), ("/dev/nvidia0", UUIDS[1]), ("/dev/nvidia10", UUIDS[2]),
    ]  # fmt: skip


def test_gpus_are_found_by_their_nodes_if_the_driver_lists_none(tmp_path: Path) -> None:
    gpus = find_gpus(nvidia(tmp_path, listed=False))
    assert [gpu.node for gpu in gpus] == ["/dev/nvidia0", "/dev/nvidia1", "/dev/nvidia10"]
    assert not any(gpu.id for gpu in gpus)


def test_a_gpu_without_a_node_here_is_not_listed(tmp_path: Path) -> None:
    root = nvidia(tmp_path)
    (root / "dev/nvidia1").unlink()
    assert [gpu.id for gpu in find_gpus(root)] == UUIDS[1:]
    assert [gpu.node for gpu in find_gpus(amd(tmp_path / "amd"))] == ["/dev/dri/renderD129", "/dev/dri/renderD128"]


def test_a_uuid_unknown_to_the_driver_is_left_out(tmp_path: Path) -> None:
    text = INFORMATION.format(uuid="GPU-????????-????-????-????-????????????", bus="0000:01:00.0", minor=0)
    root = tree(tmp_path, "dev/nvidia0", texts={"proc/driver/nvidia/gpus/0000:01:00.0/information": text})
    assert find_gpus(root) == [GpuNode(vendor="nvidia", node="/dev/nvidia0")]


@pytest.mark.parametrize(
    ("environment", "node"),
    [
        ({}, "/dev/nvidia1"),
        ({"CUDA_VISIBLE_DEVICES": "2"}, "/dev/nvidia10"),
        ({"CUDA_VISIBLE_DEVICES": "1,0"}, "/dev/nvidia0"),
        ({"CUDA_VISIBLE_DEVICES": UUIDS[1]}, "/dev/nvidia0"),
        ({"ROCR_VISIBLE_DEVICES": "1"}, "/dev/nvidia1"),
        ({"CUDA_VISIBLE_DEVICES": "3"}, None),
        ({"CUDA_VISIBLE_DEVICES": ""}, None),
        ({"CUDA_VISIBLE_DEVICES": "-1"}, None),
        ({"CUDA_VISIBLE_DEVICES": "MIG-1234"}, None),
    ],
)
def test_the_assigned_gpu_is_the_first_that_the_variable_names(
    tmp_path: Path, environment: dict[str, str], node: str | None
) -> None:
    found = assigned(find_gpus(nvidia(tmp_path)), environment)
    assert (found[0].node if found else None) == node


@pytest.mark.parametrize(
    ("environment", "nodes"),
    [
        ({}, ["nvidia1", "nvidia0", "nvidia10"]),
        ({"CUDA_VISIBLE_DEVICES": "2,1"}, ["nvidia10", "nvidia0"]),
        ({"CUDA_VISIBLE_DEVICES": f"{UUIDS[1]},0,0"}, ["nvidia0", "nvidia1"]),
        ({"CUDA_VISIBLE_DEVICES": "0,7,1"}, ["nvidia1"]),
    ],
)
def test_a_task_for_several_gpus_gets_all_that_the_variable_names(
    tmp_path: Path, environment: dict[str, str], nodes: list[str]
) -> None:
    found = assigned(find_gpus(nvidia(tmp_path)), environment)
    assert [gpu.node for gpu in found] == [f"/dev/{node}" for node in nodes]


@pytest.mark.parametrize(
    ("environment", "nodes"),
    [
        ({}, ["renderD129", "renderD128"]),
        ({"ROCR_VISIBLE_DEVICES": "1"}, ["renderD128"]),
        ({"CUDA_VISIBLE_DEVICES": "1"}, ["renderD128"]),
        ({"HIP_VISIBLE_DEVICES": "1", "CUDA_VISIBLE_DEVICES": "0"}, ["renderD128"]),
        ({"ROCR_VISIBLE_DEVICES": "1", "HIP_VISIBLE_DEVICES": "0"}, ["renderD128"]),
        ({"ROCR_VISIBLE_DEVICES": "1,0", "CUDA_VISIBLE_DEVICES": "1"}, ["renderD129"]),
        ({"ROCR_VISIBLE_DEVICES": "1", "HIP_VISIBLE_DEVICES": "1"}, []),
        ({"HIP_VISIBLE_DEVICES": "", "CUDA_VISIBLE_DEVICES": "1"}, ["renderD128"]),
        ({"ROCR_VISIBLE_DEVICES": ""}, []),
    ],
)
def test_hip_chooses_among_the_gpus_that_rocr_has_chosen(
    tmp_path: Path, environment: dict[str, str], nodes: list[str]
) -> None:
    found = assigned(find_gpus(amd(tmp_path)), environment)
    assert [gpu.node for gpu in found] == [f"/dev/dri/{node}" for node in nodes]


def test_the_referee_sees_only_the_assigned_amd_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = [replace(gpu, id=f"GPU-{number:016x}") for number, gpu in enumerate(find_gpus(amd(tmp_path)))]
    monkeypatch.setattr(cuda, "find_gpus", lambda: gpus)
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "1")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    monkeypatch.setenv("ROCR_VISIBLE_DEVICES", "0,1")
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    cuda._select_gpus(1)
    chosen = {name: os.environ.get(name) for name in gpu_nodes.CHOOSING}
    assert chosen == {
        "ROCR_VISIBLE_DEVICES": gpus[1].id, "HIP_VISIBLE_DEVICES": None, "CUDA_VISIBLE_DEVICES": None
    }  # fmt: skip
    assert assigned(gpus, os.environ) == [gpus[1]]


def test_several_gpus_reach_the_player_together(tmp_path: Path) -> None:
    root = nvidia(tmp_path)
    shown = shown_of(find_gpus(root)[:2], root)
    assert shown.nodes == ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia1", "/dev/nvidia0")
    assert shown.environment["CUDA_VISIBLE_DEVICES"] == f"{UUIDS[0]},{UUIDS[1]}"


def test_only_the_assigned_gpus_nodes_reach_the_player(tmp_path: Path) -> None:
    root = nvidia(tmp_path)
    gpus = find_gpus(root)
    words = " ".join(bubblewrap.command(tmp_path, ["true"], (), shown_of([gpus[2]], root))).split()
    bound = {words[n + 1] for n, word in enumerate(words) if word == "--dev-bind" and "nvidia" in words[n + 1]}
    assert bound == {"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia10"}
    assert words[words.index("CUDA_VISIBLE_DEVICES") + 1] == UUIDS[2]
    assert "TRITON_INTERPRET" not in words and "LD_LIBRARY_PATH" not in words


def test_gpu_libraries_preallocate_no_memory_and_cache_their_compilations(tmp_path: Path) -> None:
    root = nvidia(tmp_path)
    environment = bubblewrap.environment_of(shown_of(find_gpus(root), root))
    assert environment["XLA_PYTHON_CLIENT_PREALLOCATE"] == "false"
    caches = {name: place for name, place in environment.items() if "CACHE" in name and place.startswith("/")}
    assert {"CUDA_CACHE_PATH", "CUPY_CACHE_DIR", "JAX_COMPILATION_CACHE_DIR", "TRITON_CACHE_DIR"} <= caches.keys()
    assert all(Path(place).is_relative_to("/cache") for place in caches.values())
    assert environment["TRITON_CACHE_AUTOTUNING"] == "1"


def test_a_cpu_board_interprets_triton_and_shows_no_gpu(tmp_path: Path) -> None:
    line = " ".join(bubblewrap.command(tmp_path, ["true"]))
    assert "--setenv TRITON_INTERPRET 1" in line
    assert "nvidia" not in line and "/dev/kfd" not in line and "CUDA_VISIBLE_DEVICES" not in line


@pytest.mark.parametrize(
    ("library", "path", "folders"),
    [
        ("usr/lib/x86_64-linux-gnu", None, ()),
        ("usr/local/nvidia/lib64", "/usr/local/nvidia/lib64", ()),
        ("run/opengl-driver/lib", "/run/opengl-driver/lib", ("/run/opengl-driver/lib",)),
    ],
)
def test_a_driver_in_an_unusual_folder_is_shown_and_found(
    tmp_path: Path, library: str, path: str | None, folders: tuple[str, ...]
) -> None:
    root = nvidia(tmp_path, library=library)
    shown = shown_of(find_gpus(root)[:1], root)
    assert find_driver_library(root) == library
    system = ("/sys/bus/pci", "/sys/devices")
    assert (shown.environment.get("LD_LIBRARY_PATH"), shown.folders) == (path, system + folders)


def test_an_amd_gpu_needs_dev_kfd_and_one_render_node(tmp_path: Path) -> None:
    root = amd(tmp_path)
    shown = shown_of(find_gpus(root)[:1], root)
    assert shown.nodes == ("/dev/kfd", "/dev/dri/renderD129")
    assert shown.environment == {"ROCR_VISIBLE_DEVICES": "GPU-0123456789abcdef"}
    assert "/sys/class/kfd" in shown.folders
    assert not find_faults(find_gpus(root)[:1], root)


def test_an_unusable_node_or_driver_is_reported_with_its_fix(tmp_path: Path) -> None:
    root = nvidia(tmp_path, library="srv/elsewhere")
    gpus = find_gpus(root)[:1]
    (root / "dev/nvidia-uvm").unlink()
    (root / "dev/nvidia1").chmod(0o060)
    faults = find_faults(gpus, root)
    assert [fault.split()[0] for fault in faults] == ["/dev/nvidia-uvm", "/dev/nvidia1", "libcuda.so.1"]
    assert "nvidia-modprobe -c 0 -u" in faults[0] and "NVreg_DeviceFileMode=0666" in faults[1]
    for node in ("nvidia1", "nvidiactl"):
        (root / "dev" / node).unlink()
    faults = find_faults(gpus, root)
    assert {fault.split()[0]: fault.split()[5] for fault in faults[:-1]} == {
        "/dev/nvidia-uvm": "0", "/dev/nvidia1": "1,", "/dev/nvidiactl": "255,"
    }  # fmt: skip


@needs_root
def test_a_judge_run_by_root_is_advised_to_add_a_udev_rule(tmp_path: Path) -> None:
    root = amd(tmp_path)
    gpus = find_gpus(root)[:1]
    for node in shown_of(gpus, root).nodes:
        (root / node.lstrip("/")).chmod(0o660)
    faults = find_faults(gpus, root)
    assert [fault.split()[0] for fault in faults] == ["/dev/kfd", "/dev/dri/renderD129"]
    assert all("nobody" in fault and "/etc/udev/rules.d/70-amdgpu.rules" in fault for fault in faults)


@needs_root
@pytest.mark.parametrize(("groups", "fault"), [([4242], None), ([], "/dev/kfd is not open to this user: add it to")])
def test_a_judge_needs_only_the_group_of_the_gpu_nodes(groups: list[int], fault: str | None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        root = amd(Path(folder))
        gpus = find_gpus(root)[:1]
        for node in shown_of(gpus, root).nodes:
            path = root / node.lstrip("/")
            os.chown(path, 0, 4242)
            path.chmod(0o660)
        faults = as_user(groups, lambda: find_faults(gpus, root))
    assert len(faults) == (2 if fault else 0)
    assert not fault or faults[0].startswith(fault)


def as_user(groups: list[int], ask: Callable[[], list[str]]) -> list[str]:
    """The result of a function in a process whose user is only in these groups."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups(groups)
            os.setresgid(4711, 4711, 4711)
            os.setresuid(4711, 4711, 4711)
            os.write(writer, json.dumps(ask()).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, encoding="utf-8") as answer:
        said: list[str] = json.load(answer)
    os.waitpid(child, 0)
    return said


def test_a_gpu_partitioned_into_mig_slices_is_refused(tmp_path: Path) -> None:
    root = nvidia(tmp_path)
    tree(root, "proc/driver/nvidia/capabilities/gpu1/mig/gi7/access", "proc/driver/nvidia/capabilities/mig/config")
    first, second, _ = find_gpus(root)
    assert first.node == "/dev/nvidia1", "the minor number, not the place on the bus"
    assert [fault.partition(";")[0] for fault in find_faults([first], root)] == [
        "/dev/nvidia1 is partitioned: MIG slices are not supported"
    ]
    assert not find_faults([second], root)


@pytest.mark.parametrize("name", ["MIG-5b36b802-0ab0-5f37-af2d-ac23f40ef62d", f"MIG-{UUIDS[0]}/7/0"])
def test_a_judge_assigned_a_mig_slice_asks_for_a_whole_gpu(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", f"0, {name}")
    with pytest.raises(NoGpuError, match=rf"assigned {name}: MIG slices are not supported; give the judge a whole"):
        visible_gpus(CUDA)


def test_a_judge_assigned_too_few_gpus_says_how_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = find_gpus(nvidia(tmp_path))
    monkeypatch.setattr(gpu_nodes, "find_gpus", lambda: gpus)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    with pytest.raises(NoGpuError, match="the task needs 3 GPUs, but only 2 are assigned"):
        visible_gpus(CUDA, 3)


@pytest.mark.skipif(bool(find_gpus()), reason="there is a GPU here")
def test_a_machine_without_a_gpu_is_refused_before_judging() -> None:
    assert visible_gpus(CPU) is None
    with pytest.raises(NoGpuError, match="no GPU found on this machine"):
        visible_gpus(CUDA)
