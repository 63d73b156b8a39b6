"""Sealed memory, on a driver without a GPU: whatever a player does, the referee's time covers the work on its inputs.

The driver's times are real: a kernel that waits for S microseconds takes at least that long, even on a busy machine. So
a right output in less time is forged.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from benchmarks.border.kernels import PROBES
from benchmarks.border.player import KINDS
from benchmarks.border.probe import (
    Border,
    PlayerError,
    measure_clock,
    measure_nothing,
    measure_overlaps,
    measure_player,
    measure_stops,
)
from harness.gpu.gpu_errors import advise
from harness.gpu.kernels import REFEREE
from harness.gpu.sealed_memory import SealedMemory, draw_gate
from harness.inside.cuda_driver import Driver, DriverError
from harness.records.errors import JudgeError

WAIT_US = 30_000
LONG_US = 500_000
"""Longer than a message between two processes takes, even on a busy machine."""
STOPPED = {
    "unfinished": "seals",
    "late": "seals",
    "guess": "reveals_late",
    "gate opened": "reveals_late",
    "stale": "draws_anew",
}
"""Attacks, and the defence of the referee without which they succeed."""
WRONG = {"idle", "unfinished", "guess", "gate opened", "stale", "swapped", "moved", "kept"}
"""Attacks whose outputs are wrong."""


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("wrong size", "killed")])
def test_no_player_forges_a_time(library: str, kind: str) -> None:
    with Border(kind, library) as border:
        border.give_memory()
        if kind in ("stale", "kept"):
            border.play(0)
        if kind == "kept":
            border.give_memory()
        for _ in range(3):
            call = border.play(WAIT_US)
            assert call.is_right is (kind not in WRONG) or kind == "late"
            assert not call.is_forged


@pytest.mark.parametrize(("kind", "defence"), STOPPED.items())
def test_an_attack_succeeds_without_the_defence_that_stops_it(library: str, kind: str, defence: str) -> None:
    with Border(kind, library) as border:
        border.give_memory()
        if kind == "stale":
            border.play(0)
        call = border.play(LONG_US, **{defence: False})
        assert call.is_right and call.window_us < LONG_US


def test_inputs_are_hidden_until_they_are_revealed_and_outputs_fixed_once_sealed(library: str) -> None:
    driver = Driver(library)
    with SealedMemory(driver, 1000, 1000) as memory:
        inputs, outputs = (
            driver.open(descriptor, size) for descriptor, size in zip(memory.descriptors, memory.sizes, strict=True)
        )
        memory.clear()
        driver.write(memory.offered.address, b"secret" * 100)
        assert b"secret" not in driver.read(inputs.address, 1000)
        memory.reveal()
        assert driver.read(inputs.address, 600) == b"secret" * 100
        driver.write(outputs.address, b"answer")
        memory.seal()
        driver.write(outputs.address, b"better")
        assert driver.read(memory.sealed.address, 6) == b"answer"
        memory.clear()
        memory.reveal()
        assert b"secret" not in driver.read(inputs.address, memory.sizes[0])  # nor anything of the last call
        assert driver.read(outputs.address, 6) not in (b"answer", b"better")


def test_a_time_does_not_contain_how_long_the_referee_takes_to_launch_the_reveal(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch = Driver.launch

    def launch_slowly(*args: object, **kwargs: object) -> None:
        time.sleep(LONG_US / 1e6)
        launch(*args, **kwargs)  # type: ignore[arg-type]

    with SealedMemory(Driver(library), 1000, 1000) as memory:
        with monkeypatch.context() as slow:
            slow.setattr(Driver, "launch", launch_slowly)
            memory.reveal(draw_gate())
        assert memory.seal() < LONG_US


def test_a_reveal_that_cannot_be_launched_keeps_nothing_waiting(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise DriverError("cuLaunchKernel: CUDA_ERROR_UNKNOWN")

    with SealedMemory(Driver(library), 1000, 1000) as memory:
        with monkeypatch.context() as broken:
            broken.setattr(Driver, "launch", fail)
            with pytest.raises(DriverError, match="UNKNOWN"):
                memory.reveal()
        memory.clear()  # it waits for the stream


def test_synchronous_launches_do_not_wait_for_what_the_host_launches_next(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Driver(library).can_wait
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    assert not Driver(library).can_wait


@pytest.mark.parametrize("value", ["0", ""], ids=["a GPU that cannot", "a driver older than CUDA 12"])
def test_a_call_is_timed_where_streams_cannot_wait(library: str, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("FAKE_GPU_122", value)
    driver = Driver(library)
    assert not driver.can_wait
    with SealedMemory(driver, 1000, 1000) as memory:
        with pytest.raises(DriverError, match="CUDA_ERROR_NOT_SUPPORTED"):
            driver.wait_for_value(memory._stream.value, memory.offered.address, 1)
        memory.clear()
        memory.reveal()
        assert memory.seal() > 0


def test_a_gpu_that_keeps_no_lines_in_its_cache_is_not_asked_to_reset_them(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = Driver(library)
    monkeypatch.setattr(driver, "_attribute", lambda _: 7)
    monkeypatch.setattr(driver, "call", None)
    driver.reset_persisting_lines()


def test_a_player_that_maps_a_wrong_size_or_ends_fails(library: str) -> None:
    with Border("wrong size", library) as border, pytest.raises(PlayerError, match="CUDA_ERROR_INVALID_VALUE"):
        border.give_memory()
    with Border("killed", library) as border:
        border.give_memory()
        with pytest.raises(PlayerError, match="ended"):
            border.play(0)


def test_too_little_memory_is_named(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_GPU_BYTES", str(2 << 20))
    driver = Driver(library)
    with pytest.raises(DriverError, match="CUDA_ERROR_OUT_OF_MEMORY"):
        driver.share(3 << 20)
    descriptors = os.listdir("/proc/self/fd")
    with pytest.raises(DriverError):
        driver.open(os.open(os.devnull, os.O_RDONLY), 2 << 20)
    assert len(os.listdir("/proc/self/fd")) == len(descriptors) + 1  # the one opened above


def test_nothing_is_shared_before_it_is_overwritten(library: str) -> None:
    driver = Driver(library)
    for _ in range(3):
        with SealedMemory(driver, 1000, 1000) as memory:
            shown = driver.open(memory.descriptors[0], memory.sizes[0])
            assert len(set(memoryview(driver.read(shown.address, shown.size)).cast("I"))) == 1
            driver.write(memory.offered.address, b"secret" * 100)
            memory.reveal()
        assert b"secret" in driver.read(shown.address, 1000)  # a process that has mapped it keeps it
        driver.unmap(shown)


def test_the_memory_that_this_process_holds_is_counted_until_it_is_freed(library: str) -> None:
    before, driver = Driver.held_bytes, Driver(library)
    with SealedMemory(driver, 3 << 20, 1000):
        inputs, outputs = 4 << 20, 2 << 20  # in whole units
        assert Driver.held_bytes - before == 2 * (inputs + outputs) + 2 * driver.cache_bytes
    assert Driver.held_bytes == before


@pytest.mark.parametrize(
    ("attributes", "obstacle"),
    [
        ({133: 1}, r"Multi-Process Service is running: `echo quit \| nvidia-cuda-mps-control`"),
        ({20: 3}, "as root, `nvidia-smi -c 0` sets it to Default"),
        ({75: 7, 76: 0}, "does not clear the memory that a process has freed"),
        ({102: 0}, "cannot share memory by file descriptors"),
        ({103: 0}, "cannot share memory by file descriptors"),
    ],
    ids=["MPS", "exclusive mode", "Volta", "no virtual memory", "no descriptors"],
)
def test_a_gpu_that_cannot_share_memory_is_refused_with_the_way_out(
    library: str, monkeypatch: pytest.MonkeyPatch, attributes: dict[int, int], obstacle: str
) -> None:
    for number, value in attributes.items():
        monkeypatch.setenv(f"FAKE_GPU_{number}", str(value))
    with pytest.raises(JudgeError, match=obstacle):
        SealedMemory(Driver(library), 1000, 1000)


def test_mps_is_found_by_its_pipe_if_the_driver_is_older_than_cuda_12_3(
    library: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FAKE_GPU_133", "")
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(tmp_path))
    assert Driver(library).find_obstacle() == ""
    (tmp_path / "control").touch()
    assert "Multi-Process Service is running" in Driver(library).find_obstacle()


@pytest.mark.parametrize(
    ("error", "name", "remedy"),
    [
        (100, "CUDA_ERROR_NO_DEVICE", "check that the driver is loaded and that the container has the GPU's devices"),
        (802, "CUDA_ERROR_SYSTEM_NOT_READY", "start nvidia-fabricmanager in the same version as the driver"),
        (803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "driver and libraries differ: after an update, reboot"),
        (804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE", "remove the cuda-compat libraries from the loader's path"),
        (12345, "error 12345", "check the kernel's log"),
    ],
)
def test_a_driver_that_does_not_start_is_named_with_the_way_out(
    library: str, monkeypatch: pytest.MonkeyPatch, error: int, name: str, remedy: str
) -> None:
    monkeypatch.setenv("FAKE_GPU_INIT", str(error))
    with pytest.raises(DriverError, match=f"^cuInit: {name}") as failed:
        Driver(library)
    assert remedy in advise(failed.value)


def test_two_contexts_never_run_at_once_on_this_driver(library: str) -> None:
    with Border("honest", library) as border:
        border.give_memory()
        counting, overlaps, costs = border.find_overlaps(20)
    assert overlaps == 0 and len(costs) == counting


@pytest.mark.parametrize(
    ("measure", "words"),
    [
        (
            partial(measure_player, calls=1, kind="honest"),
            r"7 of 7 outputs right, 0 times forged; at least \d+\.\d µs above S",
        ),
        (partial(measure_player, calls=1, kind="stale"), "0 of 7 outputs right, 0 times forged"),
        (partial(measure_nothing, calls=1, size=4096), r"\d+\.\d µs; at least \d+\.\d µs"),
        (partial(measure_overlaps, trials=20), r"0 of \d+ overlap; a switch costs \d+\.\d µs"),
        (partial(measure_stops, calls=2), "2 of 2 outputs right; after a player was killed, the next one's is right"),
    ],
    ids=["honest", "stale", "nothing", "overlaps", "stops"],
)
def test_a_probe_says_what_was_measured(library: str, measure: Callable[[str], tuple[str, bool]], words: str) -> None:
    shown, is_good = measure(library)
    assert re.fullmatch(words, shown) and is_good


def test_a_forged_time_is_not_good(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.border.probe.TOLERANCE", 1e6)  # as if all clocks were slow
    shown, is_good = measure_player(library, 1, "honest")
    assert "6 times forged" in shown and not is_good


def test_the_clock_of_kernels_is_compared_with_events(library: str) -> None:
    """Other work only adds time: beside two endless loops and other tests, a quarter of the measurements are good."""
    shown = []
    for _ in range(100):
        words, is_good = measure_clock(library)
        shown.append(words)
        if is_good:
            break
    assert is_good and all(float(words.removesuffix("%")) >= 0 for words in shown), shown


def test_the_border_and_the_frame_need_no_package() -> None:
    code = "import sys; sys.path.insert(0, '.'); import benchmarks.check_gpu.command; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-IS", "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert loaded - sys.stdlib_module_names <= {"__main__", "benchmarks", "harness"}


@pytest.mark.skipif(not shutil.which("ptxas"), reason="needs ptxas")
@pytest.mark.parametrize("ptx", [REFEREE, PROBES], ids=["referee", "probes"])
@pytest.mark.parametrize("architecture", ["sm_75", "sm_90", "sm_100"])
def test_nvidias_assembler_accepts_our_kernels(tmp_path: Path, ptx: str, architecture: str) -> None:
    (tmp_path / "kernels.ptx").write_text(ptx)
    command = ["ptxas", f"-arch={architecture}", str(tmp_path / "kernels.ptx"), "-o", str(tmp_path / "kernels.cubin")]
    subprocess.run(command, check=True)
