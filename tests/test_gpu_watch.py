"""A GPU's state between the runs of a benchmark, from a driver that is compiled here, and which runs it voids.

A CPU plays in its place, without a sandbox, so that a submission can change the driver's answers.
"""

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.gpu import cpu, gpu_watch
from harness.gpu.device import REHEARSAL, Device
from harness.gpu.gpu_facts import find_meter
from harness.gpu.gpu_nodes import GpuNode
from harness.gpu.gpu_watch import GpuWatch
from harness.judge import JudgeSession, judge, open_context
from harness.records.errors import JudgeError
from harness.records.fields import Mode
from harness.records.judgement import Judgement
from harness.records.times import GpuState
from harness.records.verdict import Verdict
from harness.referee.machine import as_timed, read_machine
from harness.rules.game import Match
from harness.task.submission import Submission
from harness.task.task import load_task
from tests import nvidia_driver
from tests.nvidia_driver import UUID, tell

BOARD = load_task(Path(__file__).parent / "tasks" / "tiny").board("CPU")
GPU = GpuNode(vendor="nvidia", node="/dev/nvidia0", id=UUID)
QUIET = {"clock": 1980, "temperature": 50, "power": 400_000, "reasons": 0, "heat_ns": 7, "others": 1}
GOOD = "def custom_kernel(data):\n    return data + 1\n"


@dataclass(frozen=True, kw_only=True)
class Watched(Device):
    """A CPU with the driver of a GPU; its sweeps are slow while the file `busy` exists."""

    root: Path

    @property
    def referee_side(self):
        return SimpleNamespace(
            prepared=cpu.prepared, find_trouble=cpu.find_trouble, sweep_us=self.sweep_us,
            find_meter=lambda: find_meter(GPU, self.root),
        )  # fmt: skip

    def sweep_us(self):
        busy = self.root / "busy"
        return 90_000.0 if busy.exists() and Path("/proc", busy.read_text()).exists() else 40.0


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("machine")
    nvidia_driver.install(root)
    return root


@pytest.fixture
def device(root, monkeypatch):
    monkeypatch.setattr(gpu_watch, "_LEAVE_S", 0.2)
    tell(root, **QUIET)
    (root / "busy").unlink(missing_ok=True)
    return Watched(name="cpu", is_staged=True, root=root)


@pytest.fixture
def watch(device):
    return GpuWatch(device.referee_side.find_meter())


def seen(watch, root, before=QUIET, after=QUIET):
    tell(root, **before)
    watch.begin()
    tell(root, **after)
    watch.look()
    return watch.end()


def submission(source):
    return Submission(login="sample", source=source.encode(), name="submission.py")


def which_makes(root, what, value):
    """A right submission whose calls make the driver report this from then on."""
    return submission(
        f"def custom_kernel(data):\n    open('{root}/gpu/{what}', 'w').write('{value}')\n    return data + 1\n"
    )


def test_a_quiet_run_is_recorded_with_its_clock_and_no_hindrance(watch, root):
    assert seen(watch, root) == GpuState(clock_mhz=1980, temperature_c=50, power_w=400)


@pytest.mark.parametrize(
    ("before", "after", "hindrance"),
    [
        ({}, {"reasons": 0x80}, "it is throttled: power brake"),
        ({}, {"reasons": 0x4}, ""),  # the card's own power cap
        ({}, {"reasons": 0x8}, ""),  # any change of clocks
        ({}, {"heat_ns": 9_000_007}, "heat throttled it for 9 ms meanwhile"),
        ({"others": 2}, {"others": 2}, "1 other process uses it"),
        ({}, {"others": 9}, ""),  # the player's own
    ],
)
def test_throttling_or_sharing_of_the_gpu_is_recorded_as_a_hindrance(watch, root, before, after, hindrance):
    state = seen(watch, root, QUIET | before, QUIET | before | after)
    assert hindrance in state.hindrance if hindrance else not state.hindrance


def test_a_throttled_moment_between_two_batches_is_still_recorded(watch, root):
    watch.begin()
    tell(root, **QUIET | {"reasons": 0x40})
    watch.look()
    assert "hardware thermal slowdown" in seen_again(watch, root).hindrance


def seen_again(watch, root):
    tell(root, **QUIET)
    watch.look()
    return watch.end()


def test_the_watch_waits_for_a_closing_gpu_context(watch, root, monkeypatch):
    monkeypatch.setattr(gpu_watch, "_LEAVE_S", 60.0)
    monkeypatch.setattr(gpu_watch.time, "sleep", lambda _: tell(root, **QUIET))
    assert not seen(watch, root, before=QUIET | {"others": 2}).hindrance


def test_the_watch_claims_nothing_without_a_driver():
    watch = GpuWatch(None)
    watch.begin()
    watch.look()
    assert (watch.sees, watch.end()) == (False, None)


def test_a_judgement_records_the_gpus_state_after_each_run(device):
    with JudgeSession(BOARD, device=device, sandbox="none") as session:
        judgement = session.judge(submission(GOOD), Mode.BENCHMARK, pairs=2)
    read = Judgement.from_json(judgement.to_json())
    assert read.benchmarks[0].timing.gpu == (GpuState(clock_mhz=1980, temperature_c=50, power_w=400),) * 4
    assert (read.machine.clock_mhz, read.machine.temperature_c) == (1980, 50)
    assert "After its 4 runs: 1980 to 1980 MHz, 50 to 50 °C, 400 to 400 W." in read.machine.note


def test_a_cpu_judgement_contains_no_gpu_states():
    with JudgeSession(BOARD, device=REHEARSAL, sandbox="none") as session:
        text = session.judge(submission(GOOD), Mode.BENCHMARK, pairs=2).to_json()
    assert '"gpu": [' not in text


def test_a_gpu_throttled_during_a_ranked_run_voids_the_judging(device, root):
    with pytest.raises(JudgeError, match="the GPU cannot be used for ranking now: it is throttled: power brake"):
        judge(BOARD, which_makes(root, "reasons", 0x80), Mode.RANKED, device=device, sandbox="none")


@pytest.mark.parametrize("mode", [Mode.TEST, Mode.RANKED])
def test_an_error_of_the_gpus_memory_decides_no_verdict(device, root, mode):
    tell(root, **QUIET | {"ecc": 2})
    fails = which_makes(root, "ecc", 3)
    wrong = Submission(login=fails.login, source=fails.source.replace(b"+ 1", b"+ 2"), name=fails.name)
    for one in (fails, wrong):
        tell(root, **QUIET | {"ecc": 2})
        with pytest.raises(JudgeError, match=r"errors that could not be corrected \(1\): see"):
            judge(BOARD, one, mode, device=device, sandbox="none")


def test_a_duel_is_not_decided_on_a_throttled_gpu(device, root):
    with open_context(BOARD, Mode.TEST, "none", device=device) as context:
        match = Match(context, submission(GOOD), which_makes(root, "reasons", 0x20))
        with pytest.raises(
            JudgeError, match="the GPU cannot be used for ranking now: it is throttled: software thermal slowdown"
        ):
            match.play((1,))


def test_a_benchmark_on_a_throttled_gpu_is_judged_with_a_note(device, root):
    with JudgeSession(BOARD, device=device, sandbox="none") as session:
        judgement = session.judge(which_makes(root, "reasons", 0x80), Mode.BENCHMARK, pairs=2)
    assert judgement.verdict is Verdict.ACCEPTED and not judgement.machine.quiet
    assert "4 of 4 runs cannot be ranked: it is throttled: power brake" in judgement.machine.note


def test_a_busy_gpu_shared_with_others_is_not_called_cheating(device, root):
    source = (
        f"import os\ndef custom_kernel(data):\n    open('{root}/busy', 'w').write(str(os.getpid()))\n"
        "    return data + 1\n"
    )
    with JudgeSession(BOARD, device=device, sandbox="none") as session:
        caught = session.judge(submission(source), Mode.BENCHMARK, pairs=2)
        shared = submission(source.replace("    return", f"    open('{root}/gpu/others', 'w').write('3')\n    return"))
        with pytest.raises(JudgeError, match="the GPU cannot be used for ranking now: 2 other processes use it"):
            session.judge(shared, Mode.BENCHMARK, pairs=2)
    assert caught.verdict is Verdict.SECURITY_VIOLATION


def test_a_judgement_summarises_the_gpu_states_of_many_runs_as_ranges():
    states = [
        GpuState(clock_mhz=mhz, temperature_c=mhz / 40, hindrance="hot" * (mhz < 1500)) for mhz in (1980, 1900, 1400)
    ]
    machine = as_timed(read_machine(), states)
    assert (machine.clock_mhz, machine.temperature_c, machine.quiet) == (1900, 49.5, False)
    assert "After its 3 runs: 1400 to 1980 MHz, 35 to 50 °C. 1 of 3 runs cannot be ranked: hot." in machine.note
    silent = read_machine()
    assert as_timed(silent, []) == silent
