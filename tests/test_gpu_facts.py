"""Reads the facts that GPUs report, from sample answers.

The samples follow the documentation of NVML and rocminfo; we took none from a GPU.
"""

import ctypes
import importlib.metadata
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from harness import frame, judge
from harness.gpu import gpu_facts
from harness.gpu.device import CUDA
from harness.gpu.gpu_facts import GpuFacts, find_meter, read_rocminfo
from harness.gpu.gpu_nodes import GpuNode
from harness.records.errors import JudgeError
from harness.records.fields import Mode
from harness.records.verdict import Verdict
from harness.referee.machine import read_machine
from harness.task.submission import Submission
from harness.task.task import load_task
from harness.task.toolchain import Toolchain
from tests import nvidia_driver
from tests.nvidia_driver import UUID

ONE = "GPU-0a1b2c3d-0000-1111-2222-333333333330"
H100 = GpuFacts(
    name="NVIDIA H100 80GB HBM3", driver="580.95.05", clock_mhz=1980, max_clock_mhz=1980, memory_mhz=2619,
    temperature_c=34, power_w=71.52, busy_percent=0, others=0,
)  # fmt: skip
HOT = replace(H100, held_back=("hardware thermal slowdown",))
ROCMINFO = """ROCk module is loaded
HSA Agents
==========
*******
Agent 1
*******
  Name:                    AMD EPYC 9554 64-Core Processor
  Uuid:                    CPU-XX
  Marketing Name:          AMD EPYC 9554 64-Core Processor
  Device Type:             CPU
*******
Agent 2
*******
  Name:                    gfx942
  Uuid:                    GPU-0123456789ABCDEF
  Marketing Name:          AMD Instinct MI300X
  Device Type:             GPU
  Pool Info:
    Pool 1
      Segment:                 GLOBAL; FLAGS: COARSE GRAINED
*** Done ***
"""


def nvidia(uuid: str = "") -> GpuNode:
    return GpuNode(vendor="nvidia", node="/dev/nvidia0", id=uuid)


def test_a_quiet_gpu_has_a_state_and_no_trouble() -> None:
    assert (H100.trouble, H100.state) == ("", "1980 of 1980 MHz, memory 2619 MHz, 72 W")


def test_a_throttled_and_shared_gpu_reports_both_reasons() -> None:
    facts = replace(H100, clock_mhz=1200, power_w=698.1, held_back=("power cap", "software thermal slowdown"), others=2)
    assert "power cap, software thermal slowdown" in facts.trouble and "2 other processes use the GPU." in facts.trouble
    machine = read_machine([facts])
    assert (machine.device, machine.driver, machine.clock_mhz, machine.quiet) == (H100.name, H100.driver, 1200, False)
    assert "The GPU is throttled" in machine.note and "698 W" in machine.note


def test_the_machine_lists_the_versions_of_packages_compilers_and_headers(tmp_path: Path) -> None:
    header = tmp_path / "include" / "cutlass" / "version.h"
    header.parent.mkdir(parents=True)
    header.write_text("#define CUTLASS_MAJOR 4\n#define CUTLASS_MINOR 3\n#define CUTLASS_PATCH 0\n#define OTHER 9\n")
    (tmp_path / "plain").mkdir()
    folders = {"cutlass": header.parent.parent, "plain": tmp_path / "plain", "none": tmp_path / "none"}
    machine = read_machine(include_dirs={name: str(folder) for name, folder in folders.items()})
    assert machine.software["NumPy"] == importlib.metadata.version("numpy")
    assert ("g++" in machine.software) is (shutil.which("g++") is not None)
    assert (machine.software["cutlass"], machine.software["plain"]) == ("4.3.0", "installed")
    assert "none" not in machine.software and "CuPy" not in machine.software
    assert [*machine.versions][:3] == ["OS", "Python", "torch"] and machine.versions["cutlass"] == "4.3.0"


def test_a_throttled_or_shared_gpu_is_not_used_for_ranking() -> None:
    quiet = GpuFacts(name="H100", held_back=("power cap",), others=0, throttled_ms=12.0)
    assert quiet.hindrance == ""
    assert replace(quiet, held_back=("power cap", "hardware thermal slowdown")).hindrance == (
        "it is throttled: hardware thermal slowdown; check its cooling and power supply"
    )
    assert replace(quiet, others=1).hindrance == "1 other process uses it; the judge needs it alone"
    assert replace(quiet, others=2).hindrance == "2 other processes use it; the judge needs it alone"
    # Our own players are among them when all is over.
    assert replace(quiet, others=2).hindrance_since(quiet) == ""
    assert "power brake" in replace(quiet, held_back=("power brake",)).hindrance_since(quiet)
    assert "for 250 ms meanwhile" in replace(quiet, throttled_ms=262.0).hindrance_since(quiet)
    assert replace(quiet, throttled_ms=None).hindrance_since(quiet) == ""
    assert quiet.hindrance_since(replace(quiet, throttled_ms=None)) == ""


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("machine")
    nvidia_driver.install(root)
    return root


def test_the_meter_reads_nvidias_library_repeatedly_without_any_package(driver: Path) -> None:
    meter = find_meter(nvidia(UUID), driver)
    assert meter
    nvidia_driver.tell(
        driver, clock=345, temperature=31, power=71_000, reasons=1, heat_ns=40_000_000, others=0, used=5 << 20
    )
    assert meter() == GpuFacts(
        name="NVIDIA H200", driver="570.86.10", clock_mhz=345, max_clock_mhz=1980, temperature_c=31, power_w=71.0,
        others=0, throttled_ms=40.0, used_mib=5.0,
    )  # fmt: skip
    nvidia_driver.tell(driver, clock=1200, reasons=0x4 | 0x80 | 0x400, others=3)
    assert meter() == GpuFacts(
        name="NVIDIA H200", driver="570.86.10", clock_mhz=1200, max_clock_mhz=1980, others=3,
        held_back=("power cap", "power brake", "reliability"),
    )  # fmt: skip
    assert find_meter(nvidia(ONE.replace("0a", "ff")), driver) is None


def test_a_hardware_slowdown_report_alone_does_not_void_a_judging() -> None:
    falling = GpuFacts(name="H100", held_back=("hardware slowdown",))
    assert falling.hindrance == falling.hindrance_since(GpuFacts(name="H100")) == ""
    assert "hardware slowdown" in falling.trouble


def test_a_busy_gpu_without_listed_processes_is_not_quiet() -> None:
    assert replace(H100, busy_percent=97).trouble == "The GPU was 97 % busy."
    assert replace(H100, busy_percent=97, others=None).trouble == "The GPU was 97 % busy."
    assert replace(H100, busy_percent=None, others=None).trouble == ""


def test_memory_in_use_by_no_listed_process_is_noted() -> None:
    """In a container, the driver does not list the processes of others."""
    unseen = "programs that the driver does not list, such as a desktop's or another container's"
    note = f"900 MiB of the GPU's memory are in use by {unseen}."
    assert replace(H100, used_mib=900.2).trouble == note
    assert replace(H100, used_mib=900.2, busy_percent=97).trouble == f"The GPU was 97 % busy. {note}"
    assert replace(H100, used_mib=256.0).trouble == ""  # the driver's own
    assert replace(H100, used_mib=900.2, others=None).trouble == ""
    assert replace(H100, used_mib=900.2, others=1).trouble == "1 other process uses the GPU."


def test_amds_name_is_read_from_rocminfo() -> None:
    amd = GpuNode(vendor="amd", node="/dev/dri/renderD128", id="GPU-0123456789abcdef")
    assert read_rocminfo(ROCMINFO, amd) == GpuFacts(name="AMD Instinct MI300X")
    assert read_rocminfo(ROCMINFO, replace(amd, id="")) == GpuFacts(name="AMD Instinct MI300X")
    assert read_rocminfo(ROCMINFO, replace(amd, id="GPU-ffff")) is None
    assert read_rocminfo("", amd) is None


def test_amds_state_is_read_from_the_kernels_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the kernel's units: hertz, microwatts, thousandths of a degree; a file for the GPU of each queue."""
    program = tmp_path / "rocminfo"
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{ROCMINFO}END\n")
    program.chmod(0o755)
    monkeypatch.setattr(gpu_facts, "_PATH", {"PATH": f"{tmp_path}:{os.defpath}"})
    device, kfd = "sys/class/drm/renderD129/device", "sys/class/kfd/kfd"
    files = {
        f"{device}/gpu_busy_percent": "3", f"{device}/hwmon/hwmon5/freq1_input": "2100000000",
        f"{device}/hwmon/hwmon5/freq2_input": "1300000000", f"{device}/hwmon/hwmon5/power1_average": "140000000",
        f"{device}/hwmon/hwmon5/temp1_input": "41000", f"{device}/hwmon/hwmon5/temp2_input": "57000",
        f"{device}/hwmon/hwmon5/temp2_crit": "100000", f"{device}/hwmon/hwmon5/temp3_input": "52000",
        f"{kfd}/topology/nodes/2/properties": "simd_count 1216\ndrm_render_minor 129\n",
        f"{kfd}/topology/nodes/2/gpu_id": "51545", f"{kfd}/topology/nodes/1/gpu_id": "28851",
        f"{kfd}/topology/nodes/1/properties": "simd_count 1216\ndrm_render_minor 128\n",
        f"{kfd}/proc/4711/queues/0/gpuid": "51545", f"{kfd}/proc/4711/queues/1/gpuid": "51545",
        f"{kfd}/proc/4712/queues/0/gpuid": "28851", f"{kfd}/proc/4713/vram_51545": "0",
    }  # fmt: skip
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(f"{text}\n")
    meter = find_meter(GpuNode(vendor="amd", node="/dev/dri/renderD129", id="GPU-0123456789abcdef"), tmp_path)
    assert meter
    assert meter() == GpuFacts(
        name="AMD Instinct MI300X", clock_mhz=2100, memory_mhz=1300, power_w=140, temperature_c=57, busy_percent=3,
        others=1,
    )  # fmt: skip
    (tmp_path / device / "hwmon/hwmon5/temp2_input").write_text("100000\n")
    (tmp_path / device / "hwmon/hwmon5/power1_average").rename(tmp_path / device / "hwmon/hwmon5/power1_input")
    hot = meter()
    assert (hot.power_w, hot.hindrance) == (
        140,
        "it is throttled: critical temperature; check its cooling and power supply",
    )
    silent = find_meter(GpuNode(vendor="amd", node="/dev/dri/renderD129"), tmp_path / "another")
    assert silent and silent() == GpuFacts(name="AMD Instinct MI300X")
    assert find_meter(GpuNode(vendor="amd", node="/dev/dri/renderD129", id="GPU-ffff"), tmp_path) is None


def test_the_library_may_be_in_another_folder_than_cuda(
    driver: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load, library = ctypes.CDLL, driver / "usr/local/nvidia/lib64/libnvidia-ml.so.1"
    monkeypatch.setattr(ctypes, "CDLL", lambda name: load(str(library) if name == library.name else name))
    (tmp_path / "usr/lib64").mkdir(parents=True)
    (tmp_path / "usr/lib64/libcuda.so.1").touch()
    assert find_meter(nvidia(UUID), tmp_path)


def _report(monkeypatch: pytest.MonkeyPatch, *facts: GpuFacts | None) -> None:
    """A machine with a GPU that reports these facts, one after the other; None is a GPU that reports nothing."""
    reports = iter(facts)
    monkeypatch.setattr(frame, "require_gpus", lambda world_size: [nvidia(ONE)] * world_size)
    monkeypatch.setattr(frame, "read_gpu", lambda _: next(reports))


def test_a_gpu_that_the_board_does_not_expect_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    board = load_task(Path(__file__).parent / "tasks" / "tiny").board("CPU")

    def on(name: str, *device: str) -> GpuFacts:
        return frame.require_facts(nvidia(ONE), replace(board, gpu=name, toolchain=Toolchain(device=device)))

    _report(monkeypatch, H100, None, H100, H100, H100)
    with pytest.raises(
        JudgeError, match="the board A100 expects A100-SXM4-80GB, but this machine has NVIDIA H100 80GB HBM3"
    ):
        on("A100", "A100-SXM4-80GB")
    with pytest.raises(
        JudgeError, match=r"the board H100 needs a GPU that reports its name: install the driver's libnvidia-ml\.so\.1"
    ):
        on("H100")
    with pytest.raises(JudgeError, match="expects H100 PCIe or H100, but this machine has NVIDIA H100 80GB HBM3"):
        on("H100", "H100 PCIe", "H100")
    assert on("H100", "H100 80GB HBM3") == on("any") == H100


def test_a_hot_gpu_is_refused_for_ranking_but_can_test(monkeypatch: pytest.MonkeyPatch) -> None:
    _report(monkeypatch, HOT, HOT)
    board = replace(load_task(Path(__file__).parent / "tasks" / "tiny").board("CPU"), gpu="H100")
    nothing = Submission(login="ada", source=b"x = 1\n")
    with pytest.raises(
        JudgeError, match="NVIDIA H100 80GB HBM3 cannot be used for ranking now: it is throttled: hardware thermal"
    ):
        judge.judge(board, nothing, Mode.RANKED, sandbox="none", device=CUDA)
    tested = judge.judge(board, nothing, Mode.TEST, sandbox="none", device=CUDA)
    assert tested.verdict is Verdict.COMPILE_ERROR and not tested.machine.quiet


def test_a_gpu_that_overheats_while_ranking_voids_the_judging(monkeypatch: pytest.MonkeyPatch) -> None:
    _report(monkeypatch, H100, HOT)
    board = replace(load_task(Path(__file__).parent / "tasks" / "tiny").board("CPU"), gpu="H100")
    nothing = Submission(login="ada", source=b"x = 1\n")
    with pytest.raises(JudgeError, match="cannot be used for ranking now: it is throttled: hardware thermal"):
        judge.judge(board, nothing, Mode.RANKED, sandbox="none", device=CUDA)
