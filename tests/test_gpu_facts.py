"""What GPUs say of themselves: recorded answers, and what is made of them.

The texts have the form that nvidia-smi and rocminfo document; none was taken from a GPU by us.
"""

import os
import stat
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness import gpu_facts, judge
from harness.devices.device import CUDA
from harness.errors import JudgeError
from harness.fields import Mode
from harness.gpu_facts import QUERY, GpuFacts, read_gpu, read_rocminfo, read_smi
from harness.gpu_nodes import Gpu
from harness.judgement import is_named
from harness.machine import read_machine
from harness.submission import Submission
from harness.task import load_task
from harness.toolchain import Toolchain
from harness.verdict import Verdict

ONE = "GPU-0a1b2c3d-0000-1111-2222-333333333330"
TWO = "GPU-0a1b2c3d-0000-1111-2222-333333333331"
H100 = f"NVIDIA H100 80GB HBM3, {ONE}, 580.95.05, 1980, 1980, 2619, 34, 71.52, 0, 0x0000000000000001\n"
HOT = f"NVIDIA H200, {TWO}, 570.86.10, 1200, 1980, 3201, 88, 698.10, 97, 0x0000000000000064\n"
SILENT = f"Tesla T4, {TWO}, 535.54, [N/A], [Not Supported], 405, 41, [N/A], [N/A], [N/A]\n"
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


def nvidia(uuid: str = "") -> Gpu:
    return Gpu(vendor="nvidia", node="/dev/nvidia0", id=uuid)


def test_a_quiet_gpu_is_read_from_nvidia_smis_csv() -> None:
    facts = read_smi(H100 + HOT, "", nvidia(ONE))
    assert facts == GpuFacts(
        name="NVIDIA H100 80GB HBM3", driver="580.95.05", clock_mhz=1980, max_clock_mhz=1980, memory_mhz=2619,
        temperature_c=34, power_w=71.52, busy_percent=0, held_back=(), others=0,
    )  # fmt: skip
    assert (facts.trouble, facts.state) == ("", "1980 of 1980 MHz, memory 2619 MHz, 72 W")


def test_a_gpu_that_is_held_back_and_shared_says_why() -> None:
    facts = read_smi(H100 + HOT, "4711\n4712\n", nvidia(TWO))
    assert facts and facts.held_back == ("power cap", "software thermal slowdown", "hardware thermal slowdown")
    assert "power cap" in facts.trouble and "Others compute on it: 2 processes." in facts.trouble
    machine = read_machine([facts])
    assert (machine.device, machine.driver, machine.clock_mhz, machine.quiet) == (
        "NVIDIA H200",
        "570.86.10",
        1200,
        False,
    )
    assert "The GPU is held back" in machine.note and "698 W" in machine.note


def test_what_is_held_back_or_shared_ranks_nobody() -> None:
    quiet = GpuFacts(name="H100", held_back=("power cap",), others=0, throttled_ms=12.0)
    assert quiet.hindrance == ""
    assert replace(quiet, held_back=("power cap", "hardware thermal slowdown")).hindrance == (
        "it is held back: hardware thermal slowdown; see to its cooling and supply"
    )
    assert replace(quiet, others=1).hindrance == "1 other process computes on it; it must be alone"
    assert replace(quiet, others=2).hindrance == "2 other processes compute on it; it must be alone"
    # Our own players are among them when all is over.
    assert replace(quiet, others=2).hindrance_since(quiet) == ""
    assert "power brake" in replace(quiet, held_back=("power brake",)).hindrance_since(quiet)
    assert "for 250 ms meanwhile" in replace(quiet, throttled_ms=262.0).hindrance_since(quiet)
    assert replace(quiet, throttled_ms=None).hindrance_since(quiet) == ""


class Nvml:
    """NVIDIA's library as it documents itself, for one H200 that was throttled for 40 ms."""

    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU, NVML_PERF_POLICY_THERMAL = 1, 2, 0, 1

    class NVMLError(Exception):
        pass

    def __getattr__(self, name: str) -> Any:
        answers = {
            "nvmlInit": None, "nvmlShutdown": None, "nvmlDeviceGetHandleByIndex": "handle",
            "nvmlDeviceGetName": "NVIDIA H200", "nvmlSystemGetDriverVersion": b"570.86.10",
            "nvmlDeviceGetClockInfo": 1980, "nvmlDeviceGetMaxClockInfo": 1980, "nvmlDeviceGetTemperature": 50,
            "nvmlDeviceGetPowerUsage": 120_000, "nvmlDeviceGetComputeRunningProcesses": [],
            "nvmlDeviceGetViolationStatus": SimpleNamespace(referenceTime=9, violationTime=40_000_000),
        }  # fmt: skip
        if name == "nvmlDeviceGetUtilizationRates":
            raise self.NVMLError("Not Supported")
        return lambda *_: answers.get(name, 0)


def test_nvidias_library_tells_how_long_a_gpu_was_throttled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", cast("Any", Nvml()))
    facts = read_gpu(nvidia())
    assert facts and (facts.name, facts.power_w, facts.others, facts.throttled_ms) == ("NVIDIA H200", 120.0, 0, 40.0)
    assert facts.busy_percent is None


def test_what_a_gpu_does_not_tell_is_absent() -> None:
    facts = read_smi(SILENT, None, nvidia())
    assert facts == GpuFacts(name="Tesla T4", driver="535.54", memory_mhz=405, temperature_c=41)
    assert facts.trouble == ""


def test_a_gpu_that_is_busy_though_nobody_is_listed_is_not_quiet() -> None:
    facts = read_smi(HOT.replace("0x0000000000000064", "0x0000000000000002"), "", nvidia())
    assert facts and facts.trouble == "It was busy for 97 % of the time before."


@pytest.mark.parametrize("text", ["", "No devices were found\n", H100[:60], HOT])
def test_what_is_no_answer_for_this_gpu_is_none(text: str) -> None:
    assert read_smi(text, "", nvidia(ONE)) is None


def test_amds_name_is_read_from_rocminfo() -> None:
    amd = Gpu(vendor="amd", node="/dev/dri/renderD128", id="GPU-0123456789abcdef")
    assert read_rocminfo(ROCMINFO, amd) == GpuFacts(name="AMD Instinct MI300X")
    assert read_rocminfo(ROCMINFO, replace(amd, id="")) == GpuFacts(name="AMD Instinct MI300X")
    assert read_rocminfo(ROCMINFO, replace(amd, id="GPU-ffff")) is None
    assert read_rocminfo("", amd) is None


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose nvidia-smi answers as an H100's does, run as a program for real."""
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\ncase \"$1\" in --query-gpu={','.join(QUERY)}) printf '{H100}';; esac\n")
    program.chmod(program.stat().st_mode | stat.S_IEXEC)
    monkeypatch.setattr(gpu_facts, "_PATH", {"PATH": f"{tmp_path}:{os.defpath}"})
    monkeypatch.setitem(sys.modules, "pynvml", None)


@pytest.mark.usefixtures("smi")
def test_nvidia_smi_is_asked_where_the_library_is_not_installed() -> None:
    facts = read_gpu(nvidia(ONE))
    assert facts and (facts.name, facts.others) == ("NVIDIA H100 80GB HBM3", 0)
    assert read_gpu(nvidia(TWO)) is None


@pytest.mark.usefixtures("smi")
def test_another_gpu_than_the_board_expects_is_refused_in_words_for_the_runners_host() -> None:
    board = load_task(Path(__file__).parent / "tasks" / "tiny").board("CPU")

    def on(name: str, device: str | None) -> GpuFacts:
        return judge._facts_of(nvidia(ONE), replace(board, gpu=name, toolchain=Toolchain(device=device)))

    with pytest.raises(
        JudgeError, match="the board A100 expects A100-SXM4-80GB, and this machine has NVIDIA H100 80GB HBM3"
    ):
        on("A100", "A100-SXM4-80GB")
    with pytest.raises(JudgeError, match="the board H100 needs a GPU that says what it is: install nvidia-ml-py"):
        judge._facts_of(nvidia(TWO), replace(board, gpu="H100"))
    assert on("H100", "H100").name == on("any", None).name == "NVIDIA H100 80GB HBM3"
    assert is_named("NVIDIA L40S", "L40S") and not is_named("NVIDIA L40S", "L4")


def test_a_hot_gpu_ranks_nobody_and_still_tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hot = H100.replace("0x0000000000000001", "0x0000000000000040")
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\ncase \"$1\" in --query-gpu={','.join(QUERY)}) printf '{hot}';; esac\n")
    program.chmod(0o755)
    monkeypatch.setattr(gpu_facts, "_PATH", {"PATH": f"{tmp_path}:{os.defpath}"})
    monkeypatch.setitem(sys.modules, "pynvml", None)
    # The node of a GPU that is not here.
    monkeypatch.setattr(judge, "require_gpus", lambda world_size: [nvidia(ONE)] * world_size)
    board = replace(load_task(Path(__file__).parent / "tasks" / "tiny").board("CPU"), gpu="H100")
    nothing = Submission(login="ada", source=b"x = 1\n")
    with pytest.raises(JudgeError, match="NVIDIA H100 80GB HBM3 ranks nobody now: it is held back: hardware thermal"):
        judge.judge(board, nothing, Mode.RANKED, sandbox="none", device=CUDA)
    tested = judge.judge(board, nothing, Mode.TEST, sandbox="none", device=CUDA)
    assert tested.verdict is Verdict.COMPILE_ERROR and not tested.machine.quiet
