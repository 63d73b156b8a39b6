"""Boards whose memory is sealed: the way of NVIDIA's GPUs, with a driver without a GPU, behind the walls.

The driver's memory is memory of the host, so a kernel may use torch on a CPU, or launch the driver's own kernels.
Attackers know all of our code in their process, and replace what they like.
"""

import shutil
import textwrap
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from harness.gpu.device import Device
from harness.gpu.sealed_memory import SealedMemory
from harness.inside.cuda_driver import Driver
from harness.inside.protocol import Done
from harness.judge import Sitting, duel, judge
from harness.records.errors import JudgeError
from harness.records.fields import Mode
from harness.records.judgement import Claim, Judgement
from harness.records.replay import Replay
from harness.records.verdict import Verdict
from harness.referee.orders import expect
from harness.referee.referee import _derive
from harness.referee.sampling import SAMPLES, WARMUPS, calls_per_window
from harness.referee.sealed import Sealed
from harness.rules.context import Context
from harness.task.submission import Submission
from harness.task.task import load_task
from scripts.standings.claims import claim_sentence

pytestmark = pytest.mark.walls

WAIT_S = 0.02
"""The work that attacks try to hide."""
MOST_CALLS = 6
"""Of a window, as the tests' anchor is hundreds of times faster."""
GOOD = "def custom_kernel(data):\n    return data + 1\n"
SLEEPY = f"import time\ndef custom_kernel(data):\n    time.sleep({WAIT_S})\n    return data + 1\n"
HANDLE = f"""
import ctypes, os, sys, time
import torch
from harness.inside.cuda_driver import Mapping
from harness.inside.protocol import write
frame = sys._getframe()
while type(frame.f_locals.get("self")).__name__ != "_Player":
    frame = frame.f_back
player = frame.f_locals["self"]
shared = player.shared
driver = shared._driver
spin = driver.kernel(driver.load(".entry spin(a,b,c,d)\\n"), "spin")
stream = driver.stream()
WAIT_NS = int({WAIT_S} * 1e9)
def inputs_of(call=0):
    return player.inputs[call][0]
def answer_to(data):
    "A tensor like this input, where its output belongs."
    call = [inputs[0].data_ptr() for inputs in player.inputs].index(data.data_ptr())
    place = Mapping(shared._mappings[1].address + call * shared._output_step, 4 * data.numel())
    return shared._bytes_of(place).view(torch.int32)
def launch(data):
    "Add one on the device, after a while."
    output = answer_to(data)
    driver.launch(spin, stream, (output.data_ptr(), data.data_ptr(), data.numel(), WAIT_NS))
    return output
"""
"""What an attacker finds in its process, and a kernel that works on the device."""


def submission(source):
    return Submission(login="sample", source=source.encode(), name="submission.py")


def attack(code):
    return HANDLE + textwrap.dedent(code)


@pytest.fixture(scope="module", autouse=True)
def few_calls_per_window():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("harness.referee.sealed._MOST_CALLS", MOST_CALLS)
        patch.setattr("harness.referee.sampling.CALIBRATIONS", 1)
        yield


@pytest.fixture(scope="module")
def board(tmp_path_factory):
    """The task `tiny` with integers, to which the driver's kernels can add one."""
    folder = tmp_path_factory.mktemp("tasks") / "tiny"
    shutil.copytree(Path(__file__).parent / "tasks" / "tiny", folder)
    reference = (folder / "reference.py").read_text()
    draw = "torch.randn(size, generator=torch.Generator().manual_seed(seed))"
    assert draw in reference
    integers = "torch.randint(1 << 20, (size,), generator=torch.Generator().manual_seed(seed), dtype=torch.int32)"
    (folder / "reference.py").write_text(reference.replace(draw, integers))
    tiny = load_task(folder).board("CPU")
    return replace(tiny, limits=replace(tiny.limits, case_timeout_s=2, benchmark_timeout_s=300.0))


@pytest.fixture(scope="module")
def gpu(library):
    return Device(name="cpu", driver=library)


@pytest.fixture(scope="module")
def play(board, gpu):
    """Judge one file after another, behind walls that go up once."""
    with Sitting(board, device=gpu) as sitting:
        yield lambda source, mode=Mode.TEST: sitting.judge(submission(source), mode, pairs=2)


def test_an_honest_file_is_timed_by_the_referees_events_and_its_judgement_claims_a_bound(play):
    judgement = play(SLEEPY, Mode.BENCHMARK)
    assert (judgement.verdict, judgement.claim) == (Verdict.ACCEPTED, Claim.BOUNDED)
    timing = judgement.benchmarks[0].timing
    assert Judgement.from_json(judgement.to_json()).benchmarks[0].timing == timing
    assert timing.submission_us + timing.bound_us >= WAIT_S * 1e6  # sleep ends late, never early
    assert timing.submission_us < 3 * WAIT_S * 1e6  # a call's share of the window, not the whole
    assert timing.bound_us >= timing.overhead_us
    assert {len(run.seeds) for run in timing.submission} == {WARMUPS + SAMPLES}


@pytest.mark.parametrize(
    ("windows_us", "overhead_us", "most", "calls"),
    [
        ([30_300.0] * 10, 300.0, 50, 1),
        ([1800.0] * 10, 300.0, 50, 20),  # a hundred times the overhead in one window
        ([301.0] * 10, 300.0, 50, 50),
        ([250.0] * 10, 300.0, 50, 50),  # faster than an idle player, by chance
        ([400.0] * 10, 300.0, 7, 7),
        ((), 300.0, 1, 1),
    ],
)
def test_a_window_holds_as_many_calls_as_make_its_overhead_small(windows_us, overhead_us, most, calls):
    assert calls_per_window(windows_us, overhead_us, most) == calls


def test_the_inputs_of_one_window_have_unrelated_seeds():
    seeds = [_derive(seed, number) for seed in (5, 6) for number in range(3)]
    assert seeds[0] == 5 and seeds[3] == 6 and len(set(seeds)) == 6
    assert all(abs(a - b) > 1000 for a in (seeds[1], seeds[2]) for b in (5, 6, seeds[4], seeds[5]))


def test_a_replay_has_as_many_calls_in_a_window_and_the_same_inputs(board, gpu):
    first = judge(board, submission(GOOD), Mode.BENCHMARK, device=gpu)
    (case,) = first.benchmarks
    timing = case.timing.model_copy(update={"calls_per_sample": 5})
    given = first.model_copy(update={"cases": (*first.tests, case.model_copy(update={"timing": timing}))})
    again = judge(board, submission(GOOD), Mode.BENCHMARK, device=gpu, replay=Replay(given))
    assert again.benchmarks[0].timing.calls_per_sample == 5
    assert claim_sentence(again).endswith("They are means of up to 5 calls in one window.")
    assert again.benchmarks[0].digests == case.digests


def test_two_files_duel_on_sealed_memory(board, gpu, monkeypatch):
    monkeypatch.setattr("harness.judge.device_of", lambda _: gpu)
    monkeypatch.setattr("harness.frame.device_of", lambda _: gpu)
    found = duel(board, submission(GOOD), submission(SLEEPY), looks=(1,))
    assert found.duel
    assert found.duel.ratio.value < 1


@pytest.mark.parametrize(
    ("source", "verdict", "message"),
    [
        ("def custom_kernel(data):\n    return data.add_(1)\n", "AC", ""),
        ("def custom_kernel(data):\n    return (data + 1).flip(0).flip(0)\n", "AC", ""),
        ("def custom_kernel(data):\n    return torch.stack([data + 1] * 2, 1)[:, 0]\nimport torch\n", "AC", ""),
        ("def custom_kernel(data):\n    return data\n", "WA", "expected"),
        ("def custom_kernel(data):\n    return (data + 1).double()\n", "WA", "dtype"),
        ("def custom_kernel(data):\n    return (data + 1).repeat(1000)\n", "WA", "The output takes"),
        ("def custom_kernel(data):\n    return 'text'\n", "WA", "a str"),
        ("def custom_kernel(data):\n    return 'x' * 70000\n", "WA", "a structure too large to describe"),
        ("def custom_kernel(data):\n    return data[:0]\n", "WA", "shape"),
        ("def custom_kernel(data):\n    return (data + 1).to_sparse()\n", "WA", "not a plain torch.Tensor"),
        ("def custom_kernel(data):\n    raise ValueError('no')\n", "RTE", "ValueError: no"),
        ("def custom_kernel(data):\n    while True: pass\n", "TLE", "A call took more than"),
        (f"{GOOD}1 / 0\n", "CE", "ZeroDivisionError"),
    ],
)
def test_each_kind_of_submission_gets_its_verdict(play, source, verdict, message):
    judgement = play(source)
    assert (judgement.verdict, message in judgement.message) == (verdict, True), judgement.message


LATE = """
class Late:
    def __init__(self, control):
        self.control = control
    def __getattr__(self, name):
        return getattr(self.control, name)
    def send(self, packet):
        if packet == b'{"is":"queued"}':
            time.sleep(0.1)
        return self.control.send(packet)
player.control = Late(player.control)
"""


def test_a_player_whose_work_is_queued_too_late_is_judged_like_any_other(play):
    assert play(attack(LATE + GOOD)).verdict is Verdict.ACCEPTED


CAUGHT = {
    "compute before the inputs are there": (
        """
        stash = None
        lay, fetch = player.lay_shared, player.fetch_shared
        def compute(*_):
            global stash
            stash = player.inputs and inputs_of() + 1
        def lay_and_compute(command):
            said = lay(command)
            compute()
            return said
        player.lay_shared = lay_and_compute
        def custom_kernel(data):
            return stash
        # Only with a window after the inputs are there, which is not timed.
        def fetch_and_compute(command):
            compute()
            return b'{"is":"done","output":[]}'
        player.fetch_shared = fetch_and_compute
        """,
        "WA",
    ),
    "finish after it has said so": (
        """
        shared.synchronize = lambda: None
        def custom_kernel(data):
            return launch(data)
        """,
        "WA",
    ),
    "answer before the work": (
        """
        def custom_kernel(data):
            output = answer_to(data)
            answer = b'{"is":"done","output":[%s]}' % shared.put(output, 0).encode()
            os.write(900, answer)
            time.sleep(1)
            output.copy_(data + 1)
            os._exit(0)
        """,
        "WA SV RTE",
    ),
    "change the inputs": (
        """
        def custom_kernel(data):
            return data.zero_() + 1
        """,
        "WA",
    ),
    "use where the inputs were in the last case": (
        """
        unmap, old = driver.unmap, []
        driver.unmap = lambda mapping: None
        def custom_kernel(data):
            old.append(data)
            return old[0][:1].repeat(data.numel()) + 1
        """,
        "WA",
    ),
    "map other memory in place of the outputs": (
        """
        def custom_kernel(data):
            output = answer_to(data)
            driver.unmap(shared._mappings[1])
            shared._mappings[1], _ = driver.share(shared._mappings[1].size)
            answer_to(data).copy_(data + 1)
            return answer_to(data)
        """,
        "WA",
    ),
    "swap inputs and outputs": (
        """
        lay = shared.lay
        shared.lay = lambda order, descriptors: lay({**order, "sizes": order["sizes"][::-1]}, descriptors[::-1])
        def custom_kernel(data):
            return data + 1
        """,
        "WA RTE",
    ),
    "map half of the outputs": (
        """
        lay = shared.lay
        def lay_half(order, descriptors):
            return lay({**order, "sizes": [order["sizes"][0], order["sizes"][1] // 2]}, descriptors)
        shared.lay = lay_half
        def custom_kernel(data):
            return data + 1
        """,
        "RTE",
    ),
    "have too little memory of the device": (
        """
        ctypes.CDLL(None).setenv(b"FAKE_GPU_BYTES", b"1000", 1)
        def custom_kernel(data):
            return data + 1
        """,
        "MLE",
    ),
    "end in the window": (
        """
        def custom_kernel(data):
            os.kill(os.getpid(), 9)
        """,
        "RTE",
    ),
    "answer with a place outside the memory": (
        """
        shared.put = lambda output, call: '{"dtype":"int32","shape":[%d],"strides":[1],"at":%d}' % (
            output.numel(), shared._mappings[1].size - 2
        )
        def custom_kernel(data):
            return data + 1
        """,
        "WA",
    ),
    "answer with an address of the process": (
        """
        shared.put = lambda output, call: '{"dtype":"int32","shape":[%d],"strides":[1],"at":%d}' % (
            output.numel(), output.data_ptr()
        )
        def custom_kernel(data):
            return data + 1
        """,
        "WA",
    ),
    "answer with many outputs in one place": (
        """
        shared.put = lambda output, call: "[%s]" % ",".join(
            ['{"dtype":"uint8","shape":[2097152],"strides":[1],"at":0}'] * 18
        )
        def custom_kernel(data):
            return data + 1
        """,
        "WA",
    ),
    "answer with one element as many": (
        """
        shared.put = lambda output, call: '{"dtype":"uint8","shape":[1073741824],"strides":[0],"at":0}'
        def custom_kernel(data):
            return data + 1
        """,
        "WA",
    ),
    "answer with more outputs than calls": (
        """
        put = shared.put
        shared.put = lambda output, call: put(output, call) + "," + put(output, call)
        def custom_kernel(data):
            return data + 1
        """,
        "SV",
    ),
    "answer with one output for no call": (
        """
        player.go_shared = lambda command: b'{"is":"done","output":{"tuple":[]}}'
        def custom_kernel(data):
            return data + 1
        """,
        "SV",
    ),
}


@pytest.mark.exploit
@pytest.mark.parametrize(("code", "verdicts"), CAUGHT.values(), ids=CAUGHT)
def test_an_attack_on_sealed_memory_is_caught(play, code, verdicts):
    judgement = play(attack(code))
    assert judgement.verdict in verdicts.split(), judgement.message


HONEST = {
    "a kernel on a stream of its own": """
        def custom_kernel(data):
            return launch(data)
        """,
    "a thread that waits for the inputs from before the window on": """
        import threading
        waiting = {}
        lay = player.lay_shared
        def await_inputs(data):
            while data[0] == data[1]:  # until then, there is one word everywhere
                time.sleep(1e-4)
            launch(data)
        def lay_and_wait(command):
            said = lay(command)
            for data in (inputs[0] for inputs in player.inputs if inputs[0].numel() > 1):
                waiting[data.data_ptr()] = threading.Thread(target=await_inputs, args=(data,))
                waiting[data.data_ptr()].start()
            return said
        player.lay_shared = lay_and_wait
        def custom_kernel(data):
            if data.data_ptr() not in waiting:
                return launch(data)
            waiting.pop(data.data_ptr()).join()
            return answer_to(data)
        """,
    "clocks that stand still": """
        for name in ("perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "time", "time_ns"):
            setattr(time, name, lambda: 1)
        driver.elapsed_us = lambda *_: 1.0
        def custom_kernel(data):
            return launch(data)
        """,
    "a second mapping of the outputs": """
        lay = shared.lay
        seconds = []
        def lay_twice(order, descriptors):
            if descriptors:
                seconds[:] = [driver.open(descriptors[1], order["sizes"][1])]
            return lay(order, descriptors)
        shared.lay = lay_twice
        def custom_kernel(data):
            output = launch(data)
            driver.synchronize()
            assert driver.read(seconds[0].address, 4) == driver.read(shared._mappings[1].address, 4)
            return output
        """,
    "memory that it tries to shrink": """
        lay = shared.lay
        def lay_and_shrink(order, descriptors):
            for descriptor in descriptors:
                try:
                    os.ftruncate(descriptor, 0)
                except PermissionError:
                    pass
            return lay(order, descriptors)
        shared.lay = lay_and_shrink
        def custom_kernel(data):
            return launch(data)
        """,
}


@pytest.mark.exploit
@pytest.mark.parametrize("code", HONEST.values(), ids=HONEST)
def test_an_attack_on_the_time_of_sealed_memory_gains_nothing(play, code):
    judgement = play(attack(code), Mode.BENCHMARK)
    assert judgement.verdict is Verdict.ACCEPTED, judgement.message
    timing = judgement.benchmarks[0].timing
    assert timing.submission_us + timing.bound_us >= WAIT_S * 1e6
    least = min(sample for run in timing.submission for sample in run.samples_us)
    assert least + timing.bound_us >= 0.99 * WAIT_S * 1e6


@pytest.mark.skipif(not Path("/proc/self/autogroup").exists(), reason="this kernel has no scheduling groups")
def test_a_player_that_changes_the_priority_of_all_players_is_caught(board, gpu):
    rest = f"open('/proc/self/autogroup', 'w').write('1')\n{GOOD}"
    judgement = judge(board, submission(rest), Mode.TEST, device=gpu)
    assert judgement.verdict is Verdict.SECURITY_VIOLATION
    assert "autogroup" in judgement.message


def test_work_is_queued_before_the_inputs_unless_scalars_are_new(library):
    sealed = Sealed(None, Driver(library), torch.device("cpu"))
    windows = [[1, 1], [1, 1], [1, 2], [3, 3], [3, 3]]
    queued = [sealed._may_queue([SimpleNamespace(scalars=[scalar]) for scalar in window]) for window in windows]
    assert queued == [False, True, False, False, True]


# ---------------------------------------------------------------------- with a defence switched off


def give_an_untimed_window(patch):
    def play(self, hands, deadline, **_):
        self._offer(hands)
        self._reveal(0)
        self.orders.open_window({"do": "fetch"}, deadline)
        order = {"do": "go", "scalars": [hand.scalars for hand in hands], "gate": 0}
        us, answer = self.orders.open_window(order, deadline)
        self._memory.seal()
        return us, self._collect(expect(answer, Done), hands)

    patch.setattr(Sealed, "play", play)


def seal_late(patch):
    seal = SealedMemory.seal

    def sleep_and_seal(self):
        time.sleep(10 * WAIT_S)
        return seal(self)

    patch.setattr(SealedMemory, "seal", sleep_and_seal)
    patch.setattr("harness.sandbox.player_handle.PlayerHandle.stop", lambda _: None)
    patch.setattr("harness.sandbox.player_handle.PlayerHandle.resume", lambda _: None)


def check_against_the_players_inputs(patch):
    play = Sealed.play

    def play_and_read_inputs(self, hands, deadline, **rest):
        played = play(self, hands, deadline, **rest)
        for hand in hands:
            self._driver.copy(hand.tensors[0].data_ptr(), self._memory._inputs.address, 4 * hand.tensors[0].numel())
        return played

    patch.setattr(Sealed, "play", play_and_read_inputs)


def leave_the_last_call_as_it_is(patch):
    patch.setattr(SealedMemory, "clear", lambda _: None)
    patch.setattr(Context, "seed", lambda _: 102)


SUCCEEDS = {
    "compute before the inputs are there": give_an_untimed_window,
    "finish after it has said so": seal_late,
    "change the inputs": check_against_the_players_inputs,
}


@pytest.mark.exploit
@pytest.mark.parametrize(("name", "switch_off"), SUCCEEDS.items(), ids=SUCCEEDS)
def test_an_attack_on_sealed_memory_succeeds_with_a_defence_switched_off(board, gpu, monkeypatch, name, switch_off):
    switch_off(monkeypatch)
    judgement = judge(board, submission(attack(CAUGHT[name][0])), Mode.TEST, device=gpu)
    assert judgement.verdict is Verdict.ACCEPTED, judgement.message


STALE = """
first = {}
def custom_kernel(data):
    place = data.data_ptr(), len(data)
    if place not in first:
        first[place] = data + 1
    return first[place]
"""


@pytest.mark.exploit
def test_the_answer_to_the_first_call_is_wrong_for_the_next_and_right_for_equal_inputs(play, board, gpu, monkeypatch):
    assert play(STALE, Mode.BENCHMARK).verdict is Verdict.WRONG_ANSWER
    leave_the_last_call_as_it_is(monkeypatch)
    with Sitting(board, device=gpu) as sitting:
        assert sitting.judge(submission(STALE), Mode.BENCHMARK, pairs=2).verdict is Verdict.ACCEPTED


LAZY_IN_A_WINDOW = """
import time
ended = 0.0
def custom_kernel(data):
    global ended
    output = data if time.monotonic() - ended < 0.0001 else data + 1
    ended = time.monotonic()
    return output
"""


@pytest.mark.exploit
def test_every_output_of_a_window_with_several_calls_is_checked(play):
    """Calls of one window follow each other at once; the first one comes after the referee's work between windows."""
    assert play(LAZY_IN_A_WINDOW, Mode.BENCHMARK).verdict is Verdict.WRONG_ANSWER


# ---------------------------------------------------------------------- what is the judge's fault


def test_a_gpu_that_cannot_share_its_memory_is_the_judges_fault(board, gpu, monkeypatch):
    monkeypatch.setenv("FAKE_GPU_MPS", "1")
    with pytest.raises(JudgeError, match="Multi-Process Service is running"):
        judge(board, submission(GOOD), Mode.TEST, device=gpu)


def test_too_little_memory_for_the_referee_is_the_judges_fault(board, gpu, monkeypatch):
    monkeypatch.setenv("FAKE_GPU_BYTES", "1000")
    with pytest.raises(JudgeError, match="too little memory left for the referee"):
        judge(board, submission(GOOD), Mode.TEST, device=gpu)
