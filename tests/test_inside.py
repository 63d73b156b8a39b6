"""Boards whose times are measured in the player's process, as for a GPU: rehearsed with a CPU in its place.

The participant controls that clock.  Here it lies, in every way that it can.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.gpu import cpu
from harness.gpu.device import CPU, CUDA, REHEARSAL, STAGED, Device, device_of
from harness.gpu.gpu_nodes import GpuNode
from harness.inside import gpu_staging
from harness.inside.gpu_staging import CudaClock, Staging
from harness.inside.protocol import Filled, ProtocolError, Timed, read_answer
from harness.judge import JudgeSession, judge
from harness.records.errors import JudgeError
from harness.records.fields import Mode
from harness.records.judgement import Claim, Judgement
from harness.records.verdict import Verdict
from harness.referee.self_timing import Outside, charged_us, find_lie, hidden_us
from harness.task.submission import Submission
from harness.task.task import load_task
from scripts.bot.report.artifact import highest_claim
from scripts.standings.claims import claim_sentence

pytestmark = pytest.mark.walls

TINY = load_task(Path(__file__).parent / "tasks" / "tiny").board("CPU")
BOARD = replace(TINY, limits=replace(TINY.limits, case_timeout_s=1))
GOOD = "def custom_kernel(data):\n    return data + 1\n"
SPIN = """
import sys, time
def spin(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass
"""
SLOW = SPIN + "def custom_kernel(data):\n    spin(0.01)\n    return data + 1\n"
SLOWER = SLOW.replace("spin(0.01)", "spin(0.1)")
"""So slow that even a busy machine cannot hide it."""
TAMPER = """
frame = sys._getframe()
while type(frame.f_locals.get("self")).__name__ != "_Player":
    frame = frame.f_back
staging = frame.f_locals["self"].staging
class Told(float):
    def __repr__(self):
        return self.text
def told(text):
    number = Told(1)
    number.text = text
    honest = staging.time
    staging.time = lambda kernel, data: (honest(kernel, data)[0], number)
def slowed(name):
    honest = getattr(staging, name)
    def step(*arguments):
        spin(0.1)
        return honest(*arguments)
    setattr(staging, name, step)
"""


def submission(source):
    return Submission(login="sample", source=source.encode(), name="submission.py")


@pytest.fixture(scope="module")
def play():
    """Judge one file after the other, in one sandbox."""
    with JudgeSession(BOARD, device=REHEARSAL) as session:
        yield lambda source, mode=Mode.BENCHMARK: session.judge(submission(source), mode)


@pytest.mark.alone
def test_an_honest_submission_is_timed_inside_and_the_judgement_says_so(all_cores):
    judgement = judge(BOARD, submission(SLOW), Mode.RANKED, device=REHEARSAL)
    assert Judgement.from_json(judgement.to_json()).claim is Claim.INSIDE_TIMED
    timing = judgement.benchmarks[0].timing
    assert (judgement.verdict, judgement.claim) == (Verdict.ACCEPTED, Claim.INSIDE_TIMED)
    assert judgement.is_rankable
    assert "inside the submission's process" in claim_sentence(judgement)
    # Spinning ends after 10 ms, never before; the anchor's sum takes microseconds.
    assert min(min(run.samples_us) for run in timing.submission) >= 10_000 - timing.overhead_us
    assert timing.anchor_us < timing.submission_us
    # By the referee's clock a call takes all three steps: a player could hide this much, so the bound is no smaller.
    assert timing.bound_us > timing.overhead_us


def judged(play, lie):
    """If the idle player stalls, too, as on a busy machine, a lie may pass: then the bound must cover it."""
    for _ in range(3):
        judgement = play(SLOWER + TAMPER + lie + "\n")
        if judgement.verdict is not Verdict.ACCEPTED:
            break
        timing = judgement.benchmarks[0].timing
        assert timing.submission_us + timing.bound_us > 100_000
    return judgement


@pytest.mark.parametrize(
    ("lie", "message"),
    [
        ("told('10.0')", "The process reported 10.0 µs per call. The referee measured"),
        ("told('1e9')", "the clock in the process was changed"),
        ("slowed('fill')", "to receive its inputs, outside its own time"),
        ("slowed('fetch')", "to return its outputs, outside its own time"),
    ],
)
def test_a_time_that_the_referees_clock_contradicts_is_refused(play, lie, message):
    judgement = judged(play, lie)
    assert [case.verdict for case in judgement.tests] == ["AC", "AC"]
    assert (judgement.verdict, message in judgement.message) == (Verdict.SECURITY_VIOLATION, True), judgement.message
    assert judgement.benchmarks[0].timing is None


@pytest.mark.parametrize("text", ["-1.0", "NaN", "Infinity", "true", '"1.0"', "null", "1e300", '1.0, \\"more\\": 1'])
def test_an_impossible_time_is_a_protocol_error(text):
    with pytest.raises(ProtocolError):
        read_answer(b'{"is":"timed","delay_us":1.0,"inside_us":%s}' % text.replace("\\", "").encode())
    with pytest.raises(ProtocolError):
        read_answer(b'{"is":"timed","inside_us":1.0,"delay_us":%s}' % text.replace("\\", "").encode())


def test_an_invalid_time_is_a_security_violation_in_the_first_test(play):
    judgement = play(SLOW + TAMPER + "told('NaN')\n", Mode.TEST)
    assert (judgement.verdict, judgement.message[-16:]) == (Verdict.SECURITY_VIOLATION, "time is invalid.")


@pytest.mark.parametrize(
    ("body", "verdict", "message"),
    [
        ("return data", "WA", "output[0]"),
        ("return None", "WA", "None"),
        ("return (data + 1).to_sparse()", "WA", "sparse"),
        ("return (data + 1).to('meta')", "RTE", "a tensor on meta; its inputs are on cpu"),
        ("raise ValueError('odd')", "RTE", "line 2: ValueError: odd"),
        ("import os; os._exit(3)", "RTE", "exit code 3"),
        ("while True: pass", "TLE", "took more than 1 s"),
        ("return data.add_(1)", "AC", ""),
    ],
)
def test_each_kind_of_submission_gets_its_verdict(play, body, verdict, message):
    judgement = play(f"def custom_kernel(data):\n    {body}\n", Mode.TEST)
    assert (judgement.verdict, message in judgement.message) == (verdict, True), judgement.message


def test_a_judgement_without_a_sandbox_is_only_self_timed():
    judgement = judge(BOARD, submission(GOOD), Mode.TEST, device=REHEARSAL, sandbox="none")
    assert (judgement.verdict, judgement.claim) == (Verdict.ACCEPTED, Claim.SELF_TIMED)


def test_a_cpu_judgement_claims_bounded_times():
    assert judge(BOARD, submission(GOOD), Mode.TEST).claim is Claim.BOUNDED


@pytest.mark.parametrize(
    ("gpu", "device", "claim"),
    [
        ("CPU", "AMD EPYC 9654", Claim.BOUNDED),
        ("H100", "NVIDIA H100 PCIe", Claim.BOUNDED),
        ("MI300X", "AMD Instinct MI300X", Claim.INSIDE_TIMED),
    ],
)
def test_the_bot_derives_the_highest_claim_from_board_and_device(gpu, device, claim):
    assert highest_claim(replace(BOARD, gpu=gpu), "bubblewrap", device) is claim
    assert highest_claim(replace(BOARD, gpu=gpu), "none", device) is Claim.SELF_TIMED


def test_a_boards_name_and_the_machines_gpus_determine_its_device(monkeypatch):
    assert (device_of("CPU"), device_of("H100")) == (CPU, CUDA)
    monkeypatch.setattr("harness.gpu.device.find_gpus", lambda: [GpuNode(vendor="amd", node="/dev/dri/renderD128")])
    assert (device_of("CPU"), device_of("MI300X")) == (CPU, STAGED)


@pytest.mark.skipif("__import__('torch').cuda.is_available()", reason="there is a GPU here")
def test_a_gpu_board_without_a_gpu_is_a_judge_error():
    with pytest.raises(JudgeError, match="no GPU found on this machine"):
        judge(replace(BOARD, gpu="H100"), submission(GOOD), Mode.TEST)


# The clocks, compared.


def call(
    inside_us=500.0, beside_us=100.0, fill_us=300.0, fetch_us=200.0, fetched_bytes=4000, sweep_us=40.0, delay_us=0.0
):
    window_us = inside_us + beside_us
    return Outside(
        inside_us=inside_us, delay_us=delay_us, fill_us=fill_us, window_us=window_us, fetch_us=fetch_us,
        span_us=fill_us + window_us + fetch_us + 50, fetched_bytes=fetched_bytes, sweep_us=sweep_us,
    )  # fmt: skip


IDLE = [call(inside_us=1.0)] * 10
DELAYED = [call(inside_us=1.0, beside_us=300.0, delay_us=200.0)] * 10
"""The same with a delay before each call, inside the window."""


@pytest.mark.parametrize("idle", [IDLE, DELAYED])
@pytest.mark.parametrize(
    ("calls", "lie"),
    [
        ([call()] * 10, ""),
        ([call(inside_us=0.0)] * 10, ""),
        ([call(beside_us=1200)] * 10, ""),  # slow machine
        ([call()] * 6 + [call(beside_us=1e6, fill_us=1e6, fetch_us=1e6)] * 4, ""),  # stalls
        ([call()] * 4 + [call(beside_us=1e6)] * 6, "more than that"),
        ([call(inside_us=1e6, beside_us=2e5)] * 10, ""),  # a long call that cleans up
        ([call(inside_us=1e6, beside_us=4e5)] * 10, "more than that"),
        ([call()] * 9 + [call(beside_us=-20)], "was changed"),
        ([call(beside_us=-0.5)] * 10, ""),  # the clocks agree
        ([call(fill_us=2000)] * 10, "receive its inputs"),
        ([call(fetch_us=2000)] * 10, "return its outputs"),
        ([call(fetch_us=2000, fetched_bytes=40_000)] * 10, ""),  # ten times the bytes take ten times as long
        ([call(sweep_us=300)] * 10, ""),
        ([call()] * 6 + [call(sweep_us=2000)] * 4, ""),  # other programs' turns, now and then
        ([call()] * 4 + [call(sweep_us=2000)] * 6, "busy while the process was stopped"),
    ],
)
def test_the_referee_distinguishes_gross_lies_from_a_machines_stalls(calls, lie, idle):
    assert lie in find_lie(calls, idle) if lie else not find_lie(calls, idle)


def test_time_that_other_work_may_have_taken_is_not_blamed_on_a_player():
    waited = [call(inside_us=10_000.0, beside_us=10_000.0)] * 10
    assert find_lie(waited, IDLE) and find_lie(waited, IDLE, other_work=0.2)
    assert not find_lie(waited, IDLE, other_work=0.5)
    assert find_lie([call(inside_us=10.0, beside_us=100_000.0)] * 10, IDLE, other_work=0.5)


@pytest.mark.parametrize(
    ("late", "extra_us"),
    [
        ({"beside_us": 1e6}, 1e6 - (3 * 100 + 1000 + 0.25 * 500)),
        ({"sweep_us": 2000.0}, 2000 - (3 * 40 + 200)),
        ({"fill_us": 5000.0}, 5000 - (3 * 300 + 1000)),
        ({"fetch_us": 5000.0}, 5000 - (3 * 200 + 1000)),
        ({"fetch_us": 5000.0, "fetched_bytes": 8000}, 5000 - (3 * 2 * 200 + 1000)),
        ({"beside_us": 1200.0}, 0),
    ],
)
def test_a_call_is_charged_for_the_time_beyond_its_steps_limits(late, extra_us):
    assert charged_us([call(), call(**late)], IDLE) == pytest.approx((500, 500 + extra_us))


def test_a_few_stalls_of_the_idle_player_do_not_change_the_charge_but_prevent_blame():
    stalled = IDLE[:8] + [call(inside_us=1.0, beside_us=1e5, sweep_us=1e5, fill_us=1e5, fetch_us=1e5)] * 2
    for late in ({"beside_us": 9000.0}, {"sweep_us": 9000.0}, {"fill_us": 9000.0}, {"fetch_us": 9000.0}):
        assert charged_us([call(**late)], stalled) == charged_us([call(**late)], IDLE)
        assert find_lie([call(**late)] * 10, IDLE) and not find_lie([call(**late)] * 10, stalled), "a busy machine"


def test_a_lie_in_half_of_the_calls_widens_the_bound():
    assert hidden_us([call()] * 5 + [call(beside_us=1e6)] * 5) == 300 + 1e6 + 200 + 50


def test_a_lie_in_half_of_the_calls_gains_nothing(play):
    """The median of ten samples is the mean of the fifth and the sixth, so a lie of 10 µs in five would halve it."""
    half = "told('10.0')\nlying, calls = staging.time, []\ndef sometimes(kernel, data):\n    calls.append(1)\n"
    half += "    return (lying if len(calls) % 2 else honest_time)(kernel, data)\nstaging.time = sometimes\n"
    judgement = play(SLOWER + TAMPER + "honest_time = staging.time\n" + half)
    assert judgement.verdict is Verdict.ACCEPTED, judgement.message
    assert judgement.benchmarks[0].timing.submission_us > 60_000


def test_skipping_the_delay_gains_no_room_and_keeping_it_is_not_blamed():
    most_us = 3 * 100 + 1000 + 0.25 * 500  # from IDLE, as if there were no delay
    assert find_lie([call(beside_us=most_us + 1)] * 10, DELAYED)
    assert find_lie([call(beside_us=most_us + 1, delay_us=1e5)] * 10, DELAYED), (
        "a player's clock does not widen the bound"
    )
    assert not find_lie([call(beside_us=300.0, delay_us=200.0)] * 10, DELAYED)
    assert hidden_us([call(beside_us=300.0, delay_us=200.0)] * 10) == hidden_us([call()] * 10) + 200


class Gpu:
    """A GPU in virtual microseconds, from its documentation: launches queue up, and events are recorded in order."""

    def __init__(self):
        self.now = self.free = 0.0

    def launch(self, us, cpu_us=5.0):
        self.now += cpu_us
        self.free = max(self.free, self.now) + us

    def synchronize(self):
        self.now = max(self.now, self.free)

    def event(self, enable_timing):
        assert enable_timing
        event = SimpleNamespace(synchronize=self.synchronize)
        event.record = lambda: (self.launch(0.0), setattr(event, "at", self.free))
        event.elapsed_time = lambda later: (later.at - event.at) / 1e3
        return event


@pytest.fixture
def gpu(monkeypatch):
    gpu = Gpu()
    monkeypatch.setattr(gpu_staging.torch.cuda, "Event", gpu.event)
    monkeypatch.setattr(gpu_staging.torch.cuda, "synchronize", gpu.synchronize)
    monkeypatch.setattr(gpu_staging, "time", SimpleNamespace(perf_counter_ns=lambda: round(gpu.now * 1e3)))
    monkeypatch.setattr(gpu_staging, "Sweep", lambda: SimpleNamespace(buffer=None))
    monkeypatch.setattr(gpu_staging, "Delay", lambda _: SimpleNamespace(launch=lambda: gpu.launch(200.0)))
    return gpu


@pytest.mark.parametrize(
    ("launch_us", "kernel_us", "said_us"),
    [
        (40.0, 10.0, 10.0),  # launched long before it runs
        (0.0, 1000.0, 1000.0),
        (300.0, 10.0, 120.0),  # the rest after the delay counts for the call
    ],
)
def test_launch_time_covered_by_the_delay_does_not_count_for_the_kernel(gpu, launch_us, kernel_us, said_us):
    clock = CudaClock()
    for _ in range(2):  # events are reused
        gpu.synchronize()
        gpu.now += 1000.0
        output, inside_us = clock.time(lambda data: gpu.launch(kernel_us, cpu_us=launch_us) or data, 7)
        assert (output, inside_us) == (7, pytest.approx(said_us, abs=10.0))
        assert clock.delay_us == pytest.approx(200.0, abs=10.0)


@pytest.mark.parametrize("pass_us", [7.0, 60.0, 199.0, 200.0, 640.0])
def test_the_delays_length_does_not_depend_on_the_time_per_pass(pass_us):
    words = gpu_staging.torch.arange(10_000, dtype=gpu_staging.torch.int32)
    delay = gpu_staging.as_long(words, pass_us)
    assert delay.numel() * pass_us / len(words) == pytest.approx(200, rel=0.2)
    assert delay.data_ptr() == words.data_ptr(), "a second buffer"


@dataclass(frozen=True, kw_only=True)
class BusyGpu(Device):
    """A stand-in for a GPU that continues to work while its process, whose pid is in `work`, is stopped."""

    work: Path

    @property
    def referee_side(self):
        return SimpleNamespace(
            prepared=cpu.prepared, find_trouble=cpu.find_trouble, sweep_us=self.sweep_us, find_meter=cpu.find_meter
        )

    def sweep_us(self):
        is_busy = self.work.exists() and Path("/proc", self.work.read_text().strip()).exists()
        return 2000.0 if is_busy else 40.0


def test_a_device_left_busy_by_a_stopped_player_exposes_the_cheat(tmp_path):
    busy = BusyGpu(name="cpu", is_staged=True, work=tmp_path / "work")
    # Not truncated before the write: some file systems would then flush to the disk at once, which takes milliseconds.
    leaves = (
        "import os\ndef custom_kernel(data):\n"
        f"    file = os.open({str(busy.work)!r}, os.O_WRONLY | os.O_CREAT)\n"
        "    os.write(file, b'%9d' % os.getpid())\n    os.close(file)\n"
    )
    with JudgeSession(BOARD, device=busy, sandbox="none") as session:
        caught = session.judge(submission(f"{leaves}    return data + 1\n"), Mode.BENCHMARK)
        honest = session.judge(submission(GOOD), Mode.BENCHMARK, pairs=2)
    assert caught.verdict is Verdict.SECURITY_VIOLATION
    assert "the referee's own work on it took 2000.0 µs; with an idle process, at most 40.0 µs" in caught.message
    assert honest.verdict is Verdict.ACCEPTED


def test_hidden_time_is_bounded_by_everything_outside_the_reported_time():
    assert hidden_us([call()] * 10) == 300 + 100 + 200 + 50


def test_the_players_steps_copy_tensors_of_any_strides_in_and_out():
    torch = pytest.importorskip("torch")
    staging = Staging("cpu")
    host = [torch.zeros(3, 4).t(), torch.zeros(2, dtype=torch.bfloat16)]
    given = staging.allocate(host)
    host[0].copy_(torch.arange(12.0).reshape(4, 3))
    staging.fill()
    output, inside_us = staging.time(lambda data: {"a": (data[0] * 2, 7), "b": [data[1]]}, given)
    fetched = staging.fetch(output)
    assert inside_us >= 0 and staging.delay_us == 0
    assert torch.equal(fetched["a"][0], host[0] * 2) and fetched["a"][1] == 7
    assert fetched["b"][0].data_ptr() != given[1].data_ptr()
    assert given[0].stride() == host[0].stride()


def test_the_messages_of_a_staged_call_are_read_strictly():
    assert read_answer(b'{"is":"filled"}') == Filled()
    assert read_answer(b'{"is":"timed","inside_us":12.5,"delay_us":200.5}') == Timed(12.5, 200.5)
    assert read_answer(b'{"is":"timed","inside_us":0,"delay_us":0}') == Timed(0.0, 0.0)
    with pytest.raises(ProtocolError):
        read_answer(b'{"is":"timed","inside_us":12.5}')
