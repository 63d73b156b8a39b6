"""The errors of CUDA and its libraries, in words for the person who can act on them.

The texts are from public reports of users of torch, CUDA and ROCm; we have seen none of them on a GPU ourselves.
"""

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from harness.gpu import cpu, cuda
from harness.gpu.device import REHEARSAL, Device
from harness.gpu.gpu_errors import advise, explain, is_out_of_memory
from harness.inside.protocol import Failed
from harness.judge import JudgeSession
from harness.records.errors import JudgeError
from harness.records.fields import Mode
from harness.records.verdict import Foul, Verdict
from harness.referee import orders
from harness.referee.referee import Referee
from harness.sandbox.sandbox import PlayerFiles, Sandbox
from harness.task.submission import Submission
from harness.task.task import load_task

ASIDE = """
Search for `cudaErrorIllegalAddress' in https://docs.nvidia.com/cuda/ for more information.
CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.
For debugging consider passing CUDA_LAUNCH_BLOCKING=1
Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.
"""


def raised(error: str, message: str) -> Foul:
    return orders.raised(Failed(error, message, "", 7))


@pytest.mark.parametrize(
    ("error", "message"),
    [
        ("OutOfMemoryError", "CUDA out of memory. Tried to allocate 16.00 TiB. GPU 0 has a total capacity of 79.1 GiB"),
        ("OutOfMemoryError", "HIP out of memory. Tried to allocate 20.00 MiB."),
        ("AcceleratorError", "CUDA error: out of memory" + ASIDE),
        ("RuntimeError", "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        ("CudaAPIError", "[2] Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY"),
        ("XlaRuntimeError", "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 1099511627776 bytes."),
        ("RuntimeError", "[enforce fail at alloc_cpu.cpp:117] DefaultCPUAllocator: can't allocate memory"),
        ("RuntimeError", "std::bad_alloc"),
        ("MemoryError", ""),
    ],
)
def test_an_out_of_memory_error_counts_as_memory_limit_exceeded(error: str, message: str) -> None:
    assert raised(error, message).verdict is Verdict.MEMORY_LIMIT_EXCEEDED


@pytest.mark.parametrize(
    ("said", "meaning"),
    [
        ("an illegal memory access was encountered", "outside its memory"),
        ("misaligned address", "not a multiple of the access size"),
        ("device-side assert triggered", "an index is out of bounds"),
        ("unspecified launch failure", "a kernel crashed"),
        ("invalid configuration argument", "larger than this GPU allows"),
        ("too many resources requested for launch", "more registers or shared memory"),
        ("no kernel image is available for execution on the device", "compiled for another GPU than this board's"),
        ("an illegal instruction was encountered", "an instruction that this GPU does not have"),
    ],
)
def test_a_kernel_fault_message_explains_it_and_warns_of_late_reporting(said: str, meaning: str) -> None:
    foul = raised("AcceleratorError", f"CUDA error: {said}{ASIDE}")
    assert foul.verdict is Verdict.RUN_TIME_ERROR
    assert foul.message.startswith(f"line 7: AcceleratorError: CUDA error: {said}: ") and meaning in foul.message
    assert foul.message.endswith("may have been launched before this line.") and "DSA" not in foul.message


def test_a_kernel_fault_is_explained_also_if_a_later_line_begins_with_it() -> None:
    wrapped = "backend='inductor' raised:\nAcceleratorError: CUDA error: misaligned address"
    foul = raised("BackendCompilerFailed", wrapped + ASIDE)
    begin = "line 7: BackendCompilerFailed: AcceleratorError: CUDA error: misaligned address: a kernel accessed"
    assert foul.message.startswith(begin)
    quoted = "My note\nsays that 'CUDA error: misaligned address' may appear"
    assert explain(quoted) == quoted


def test_other_errors_keep_their_text_and_unknown_device_errors_their_first_line() -> None:
    assert explain("two\nlines") == "two\nlines"
    assert explain("HIP error: unknown error\nmore").startswith("HIP error: unknown error. Kernels run asynchronously")


def test_a_failed_import_says_that_the_package_is_not_installed() -> None:
    foul = raised("ModuleNotFoundError", "No module named 'cupy'")
    assert foul.message.startswith("line 7: ModuleNotFoundError: No module named 'cupy'; it is not installed")


def test_a_gpu_health_error_raised_by_a_player_is_its_own_fault() -> None:
    assert raised("RuntimeError", "CUDA error: uncorrectable ECC error encountered").verdict is Verdict.RUN_TIME_ERROR


@pytest.mark.parametrize(
    ("said", "remedy"),
    [
        ("Torch not compiled with CUDA enabled", "a torch built for this machine's GPU"),
        ("The NVIDIA driver on your system is too old (found version 12080). Please update your GPU driver",
         "install a newer driver, or a torch built for this driver's CUDA version"),
        ("Unexpected error from cudaGetDeviceCount(). Error 802: system not yet initialized", "nvidia-fabricmanager"),
        ("Unexpected error from cudaGetDeviceCount(). Error 803: system has unsupported display driver / cuda driver "
         "combination", "after an update, reboot"),
        ("Error 804: forward compatibility was attempted on non supported HW", "cuda-compat"),
        ("Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU", "`nvidia-smi` must show"),
        ("CUDA error: CUDA-capable device(s) is/are busy or unavailable" + ASIDE, "`nvidia-smi -c 0`"),
        ("CUDA error: all CUDA-capable devices are busy or unavailable" + ASIDE, "referee and player each need a context"),
        ("No CUDA GPUs are available", "check that the driver is loaded"),
        ("CUDA error: no kernel image is available for execution on the device" + ASIDE, "has no code for this GPU"),
        ("CUDA error: uncorrectable ECC error encountered" + ASIDE, "the GPU's memory fails"),
        ("CUDA error: out of memory" + ASIDE, "what else uses the GPU's memory"),
        ("CUDA error: unknown error" + ASIDE, "dmesg"),
    ],
)  # fmt: skip
def test_advice_on_a_gpu_setup_error_names_a_remedy(said: str, remedy: str) -> None:
    advice = advise(RuntimeError(said))
    assert advice.startswith(said.splitlines()[0][:40]) and remedy in advice and "\n" not in advice


def test_only_real_memory_errors_count_as_out_of_memory() -> None:
    assert not is_out_of_memory("CUDA error: an illegal memory access was encountered")
    assert not is_out_of_memory("out of resource: shared memory, Required: 262144, Hardware limit: 232448")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_torch_without_a_gpu_is_reported_in_torchs_own_words() -> None:
    with pytest.raises(JudgeError, match=r"^torch 2\..* can't use this machine's GPU: .+; "), cuda.prepared():
        pass
    assert cuda.find_trouble().startswith("the GPU does not work: ")
    assert cuda.find_trouble(4).startswith("GPU 1 of the 4 does not work: ")


def test_a_hanging_gpu_is_reported_after_a_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    held = torch.multiprocessing.get_context().Event()
    monkeypatch.setattr(cuda, "_ANSWER_S", 0.05)
    monkeypatch.setattr(cuda, "_find_wrong_sum", lambda _: str(held.wait(10)))  # a device that does not answer
    assert cuda.find_trouble().startswith("the GPU has not answered for 0.05 s")
    held.set()


# In the sandbox, with stand-ins for a GPU.


ABORTS = b"""
import os, sys
def custom_kernel(data):
    print("Memory access fault by GPU node-1 (Agent handle: 0x55) on address 0x7f. Reason: Unknown.", file=sys.stderr)
    os.abort()
"""


@pytest.mark.walls
def test_rocms_last_words_before_an_abort_become_the_message() -> None:
    with JudgeSession(BOARD, device=REHEARSAL) as session:
        judgement = session.judge(Submission(login="ada", source=ABORTS, name="submission.py"), Mode.TEST)
    assert judgement.verdict is Verdict.RUN_TIME_ERROR
    assert judgement.message == (
        "The process crashed: SIGABRT (aborted). Memory access fault by GPU node-1 (Agent handle: 0x55) on address 0x7f. "
        "Reason: Unknown: a kernel read or wrote outside its memory; check its bounds."
    )


@dataclass(frozen=True, kw_only=True)
class FailingGpu(Device):
    """A CPU in place of a GPU that works until `trouble` makes it fail."""

    trouble: list[str]

    @property
    def is_gpu(self) -> bool:
        return False

    @property
    def referee_side(self) -> Any:
        return SimpleNamespace(
            prepared=cpu.prepared, find_trouble=lambda: self.trouble[-1], sweep_us=cpu.sweep_us,
            find_meter=cpu.find_meter,
        )  # fmt: skip


GOOD = b"def custom_kernel(data): return data + 1\n"
BOARD = load_task(Path(__file__).parent / "tasks" / "tiny").board("CPU")


@pytest.mark.walls
def test_a_gpu_broken_after_a_player_voids_the_judging() -> None:
    gpu = FailingGpu(name="cpu", is_staged=True, trouble=[""])
    crash = Submission(login="ada", source=b"def custom_kernel(data): raise ValueError('odd')\n", name="submission.py")
    with JudgeSession(BOARD, device=gpu) as session:
        assert session.judge(crash, Mode.TEST).verdict is Verdict.RUN_TIME_ERROR
        gpu.trouble.append("the GPU does not work: CUDA error: unknown error")
        with pytest.raises(JudgeError, match="after a player ended, the GPU does not work"):
            session.judge(crash, Mode.TEST)
        gpu.trouble.append("")
        assert session.judge(crash, Mode.TEST).verdict is Verdict.RUN_TIME_ERROR


@pytest.mark.walls
@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_player_without_access_to_the_gpu_is_a_judging_error() -> None:
    absent = FailingGpu(name="cuda", is_staged=True, trouble=[""])
    entry = PlayerFiles(name="test", files={"submission.py": "raise SystemExit\n"})
    with (
        Sandbox("bubblewrap", memory_gib=4, device=absent) as sandbox,
        sandbox.start_player(entry) as player,
        pytest.raises(JudgeError, match=r"could not open its GPU, but the referee could: .+; "),
    ):
        Referee(player, cast(Any, None), absent).load(10.0)


@pytest.mark.walls
def test_importing_a_missing_package_is_a_compile_error() -> None:
    file = Submission(login="ada", source=b"import no_such_thing\n" + GOOD, name="submission.py")
    with JudgeSession(BOARD, device=REHEARSAL) as session:
        judgement = session.judge(file, Mode.TEST)
    assert judgement.verdict is Verdict.COMPILE_ERROR
    assert "No module named 'no_such_thing'; it is not installed" in judgement.message
