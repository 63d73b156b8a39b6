"""Boards with sealed memory, as on NVIDIA's GPUs: judged in the sandbox, with a driver without a GPU.

The driver's memory is host memory, so a kernel may use torch on a CPU, or launch the driver's own kernels. Attackers
know all of our code in their process, and replace any of it.
"""

import os
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import textwrap
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from benchmarks.border.kernels import PROBES
from harness.gpu import cpu
from harness.gpu.device import Device
from harness.gpu.sealed_memory import SealedMemory
from harness.inside.cuda_driver import Driver
from harness.inside.protocol import Done
from harness.judge import JudgeSession, duel, judge
from harness.processes.memory import Memory, machine_ran_out
from harness.records.errors import JudgeError
from harness.records.fields import Mode
from harness.records.judgement import Claim, Judgement
from harness.records.replay import Replay
from harness.records.verdict import Foul, Verdict
from harness.referee.orders import Orders, expect
from harness.referee.referee import Referee, _derive
from harness.referee.sampling import warmups_and_samples
from harness.referee.sealed import Sealed
from harness.reference.checker import tensors
from harness.reference.reference import Reference
from harness.reference.values import collect
from harness.rules.context import Context
from harness.task.submission import Submission
from harness.task.task import load_task
from scripts.standings.claims import claim_sentence

pytestmark = pytest.mark.walls

WAIT_S = 0.02
"""The work that attacks try to hide."""
MOST_CALLS = 6
"""The most calls of a window, since the anchor of the tests is hundreds of times faster."""
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
spin = driver.kernel(driver.load({PROBES!r}), "spin")
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
"""The objects that an attacker finds in its process, and a kernel that works on the device."""


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
    """Judge one file after the other, in one sandbox."""
    with JudgeSession(board, device=gpu) as session:
        yield lambda source, mode=Mode.TEST: session.judge(submission(source), mode, pairs=2)


def test_an_honest_file_is_timed_by_the_referees_events_and_its_judgement_claims_a_bound(play):
    judgement = play(SLEEPY, Mode.BENCHMARK)
    assert (judgement.verdict, judgement.claim) == (Verdict.ACCEPTED, Claim.BOUNDED)
    timing = judgement.benchmarks[0].timing
    assert Judgement.from_json(judgement.to_json()).benchmarks[0].timing == timing
    assert timing.submission_us + timing.bound_us >= WAIT_S * 1e6  # a sleep ends late, never early
    assert timing.submission_us < 3 * WAIT_S * 1e6  # a call's share of the window, not all of it
    assert timing.bound_us >= timing.overhead_us
    assert {len(run.seeds) for run in timing.submission} == {sum(warmups_and_samples(timing.calls_per_sample))}


def test_the_inputs_of_one_window_have_unrelated_seeds():
    seeds = [_derive(seed, number) for seed in (5, 6) for number in range(3)]
    assert seeds[0] == 5 and seeds[3] == 6 and len(set(seeds)) == 6
    assert all(abs(a - b) > 1000 for a in (seeds[1], seeds[2]) for b in (5, 6, seeds[4], seeds[5]))


def test_every_window_of_an_idle_player_has_inputs_of_its_own(play, monkeypatch):
    """Equal scalars would be known before the window, so its work could be queued when that of others cannot."""
    seeds_of_idle = []
    calls = Referee.calls

    def watched(self, params, seeds, *rest, is_idle=False, **options):
        seeds_of_idle.extend(seeds if is_idle else ())
        return calls(self, params, seeds, *rest, is_idle=is_idle, **options)

    monkeypatch.setattr(Referee, "calls", watched)
    play(GOOD, Mode.BENCHMARK)
    assert len(set(seeds_of_idle)) == len(seeds_of_idle) > 1


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
        allocate, fetch = player.allocate_shared, player.fetch_shared
        def compute(*_):
            global stash
            stash = player.inputs and inputs_of() + 1
        def allocate_and_compute(command):
            said = allocate(command)
            compute()
            return said
        player.allocate_shared = allocate_and_compute
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
        class Once:
            "Sends no second answer."
            has_answered = False
            def __init__(self, control):
                self.control = control
            def __getattr__(self, name):
                return getattr(self.control, name)
            def send(self, packet):
                if self.has_answered:
                    self.has_answered = False
                    return
                return self.control.send(packet)
        player.control = Once(player.control)
        def custom_kernel(data):
            output = answer_to(data)
            player.control.send(b'{"is":"done","output":[%s]}' % shared.put(output, 0).encode())
            player.control.has_answered = True
            time.sleep(WAIT_NS / 1e8)
            return output.copy_(data + 1)
        """,
        "WA",
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
        old, found = [], []
        driver.unmap = old.append
        wait = shared.wait_for_gate
        def compute_and_wait(number):
            found.append(shared._bytes_of(old[-1]).view(torch.int32)[:inputs_of().numel()] + 1)
            wait(number)
        shared.wait_for_gate = compute_and_wait
        def custom_kernel(data):
            return found.pop() if found else data + 1
        """,
        "WA",
    ),
    "map other memory in place of the outputs": (
        """
        allocate = player.allocate_shared
        def allocate_elsewhere(command):
            allocate(command)
            if shared._mappings:
                driver.unmap(shared._mappings[1])
                shared._mappings[1], _ = driver.share(shared._mappings[1].size)
            return b'{"is":"allocated","at":%s}' % str([mapping.address for mapping in shared._mappings]).encode()
        player.allocate_shared = allocate_elsewhere
        def custom_kernel(data):
            return data + 1
        """,
        "WA",
    ),
    "swap inputs and outputs": (
        """
        allocate, wait = shared.allocate, shared.wait_for_gate
        shared.allocate = lambda order, descriptors: allocate({**order, "sizes": order["sizes"][::-1]}, descriptors[::-1])
        def wait_for_gate(number):
            shared._mappings.reverse()
            wait(number)
            shared._mappings.reverse()
        shared.wait_for_gate = wait_for_gate
        # So that what the referee has filled its outputs with is right.
        def custom_kernel(data):
            return data - 1
        """,
        "WA",
    ),
    "map half of the outputs": (
        """
        allocate = shared.allocate
        def allocate_half(order, descriptors):
            return allocate({**order, "sizes": [order["sizes"][0], order["sizes"][1] // 2]}, descriptors)
        shared.allocate = allocate_half
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
        shared.put = lambda output, call: '{"dtype":"uint8","shape":[134217728],"strides":[0],"at":0}'
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
        lock, launched = threading.Lock(), {}
        allocate = player.allocate_shared
        def allocate_alone(command):
            with lock:
                return allocate(command)
        player.allocate_shared = allocate_alone
        def words_of(data):
            return data[:2].tolist()
        def launch_early():
            driver.make_current()
            while True:
                time.sleep(1e-4)
                with lock:
                    for (data,) in player.inputs:
                        words = words_of(data)
                        # Before there are inputs, there is one word everywhere.
                        if len(set(words)) == 2 and launched.get(data.data_ptr()) != words:
                            launch(data)
                            launched[data.data_ptr()] = words
        threading.Thread(target=launch_early, daemon=True).start()
        def custom_kernel(data):
            words = words_of(data)
            if len(set(words)) < 2:
                return launch(data)
            while launched.get(data.data_ptr()) != words:
                time.sleep(1e-4)
            return answer_to(data)
        """,
    "clocks that stand still": """
        for name in ("perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "time", "time_ns"):
            setattr(time, name, lambda: 1)
        driver.elapsed_us = lambda *_: 1.0
        stream = None  # that of other clocks
        def custom_kernel(data):
            return launch(data)
        """,
    "a second mapping of the outputs": """
        allocate, go, seconds = shared.allocate, player.go_shared, []
        def allocate_twice(order, descriptors):
            if descriptors:
                seconds.append(driver.open(descriptors[1], order["sizes"][1]))
            return allocate(order, descriptors)
        shared.allocate = allocate_twice
        def words_of(mapping, data):
            return shared._bytes_of(Mapping(mapping.address, 4 * data.numel())).view(torch.int32)
        guess = answer = torch.empty(0, dtype=torch.int32)
        def compute_and_go(command):
            "If inputs are where the outputs of the last case were, begin with them."
            global guess, answer
            if len(seconds) > 1 and inputs_of().numel() > 1:
                there = words_of(seconds[-2], inputs_of())
                guess, answer = there.clone(), torch.empty_like(there)
                driver.launch(spin, stream, (answer.data_ptr(), guess.data_ptr(), guess.numel(), WAIT_NS))
                driver.synchronize()
            return go(command)
        player.go_shared = compute_and_go
        def custom_kernel(data):
            if torch.equal(data, guess):
                return answer
            output = launch(data)
            driver.synchronize()
            assert torch.equal(words_of(seconds[-1], data), words_of(shared._mappings[1], data))
            return output
        """,
    "memory that it tries to shrink": """
        allocate = shared.allocate
        def allocate_and_shrink(order, descriptors):
            kept = [os.dup(descriptor) for descriptor in descriptors]
            inputs = allocate(order, descriptors)
            for descriptor in kept:
                try:
                    os.ftruncate(descriptor, 0)
                except PermissionError:
                    pass
            return inputs
        shared.allocate = allocate_and_shrink
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


QUEUED = """
from harness.inside.protocol import gate_of
SLEEP_S, LAUNCHES = {sleep_s}, {launches}
def wait_for_gate(number):
    place = shared._mappings[0]
    driver.wait_for_value(stream.value, gate_of(place.address, place.size), number)
type(shared).can_queue = property(lambda _: True)
shared.wait_for_gate, shared.synchronize = wait_for_gate, driver.synchronize
def custom_kernel(data):
    time.sleep(SLEEP_S)
    output = answer_to(data)
    for _ in range(LAUNCHES):
        driver.launch(spin, stream, (output.data_ptr(), data.data_ptr(), data.numel(), 0))
    return output
"""
"""A player that launches kernels before there are inputs, as on a GPU."""


@pytest.mark.parametrize(("launches", "fits"), [(1, True), (100, True), (200, False)])
def test_launches_count_only_if_a_window_has_more_than_the_driver_queues(play, monkeypatch, launches, fits):
    """1,024 fit.  The first to go beyond that waits until the inputs are revealed."""
    play_window, windows, sleep_s = Sealed.play, {}, 0.002

    def note(self, inputs, *args, **options):
        played = play_window(self, inputs, *args, **options)
        if len(inputs) == MOST_CALLS:
            windows.setdefault(self, []).append(self.is_queued)
        return played

    monkeypatch.setattr(Sealed, "play", note)
    judgement = play(attack(QUEUED.format(sleep_s=sleep_s, launches=launches)), Mode.BENCHMARK)
    assert judgement.verdict is Verdict.ACCEPTED, judgement.message
    # The least queued player is the submission's: others need no queue.
    queued = min(sum(is_queued) / len(is_queued) for is_queued in windows.values())
    assert queued > 0.5 if fits else not queued
    if not fits:
        timing = judgement.benchmarks[0].timing
        # In the first sample, the player still launches as much as it can before there are inputs.
        least = min(sample for run in timing.submission for sample in run.samples_us[1:])
        assert least + timing.bound_us >= sleep_s * 1e6


def test_a_kernel_that_uses_what_is_not_mapped_ends_its_own_player_only(play):
    code = """
    def custom_kernel(data):
        driver.launch(spin, stream, (answer_to(data).data_ptr(), 64, 1, 0))
        return answer_to(data)
    """
    judgement = play(attack(code))
    assert judgement.verdict is Verdict.RUN_TIME_ERROR
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in judgement.message
    assert play(GOOD).verdict is Verdict.ACCEPTED


# ---------------------------------------------------------------------- with a defence switched off


def give_an_untimed_window(patch):
    def play(self, inputs, deadline, **_):
        self._offer(inputs)
        self._reveal(0)
        self.orders.open_window({"do": "fetch"}, deadline)
        order = {"do": "go", "scalars": [flat.scalars for flat in inputs], "gate": 0}
        us, answer = self.orders.open_window(order, deadline)
        self._memory.seal()
        return us, self._collect(expect(answer, Done), inputs)

    patch.setattr(Sealed, "play", play)


def seal_late(patch):
    seal = SealedMemory.seal

    def sleep_and_seal(self):
        time.sleep(20 * WAIT_S)
        return seal(self)

    patch.setattr(SealedMemory, "seal", sleep_and_seal)
    patch.setattr("harness.sandbox.player_handle.PlayerHandle.stop", lambda _: None)
    patch.setattr("harness.sandbox.player_handle.PlayerHandle.resume", lambda _: None)


def check_against_the_players_inputs(patch):
    play = Sealed.play

    def play_and_read_inputs(self, inputs, deadline, **rest):
        played = play(self, inputs, deadline, **rest)
        for flat in inputs:
            self._driver.copy(flat.tensors[0].data_ptr(), self._memory._inputs.address, 4 * flat.tensors[0].numel())
        return played

    patch.setattr(Sealed, "play", play_and_read_inputs)


def leave_the_last_call_as_it_is(patch):
    patch.setattr(SealedMemory, "clear", lambda _: None)
    patch.setattr(Context, "seed", lambda _: 102)


def offer_inputs_where_the_last_case_had(place, patch):
    """Reuse memory for each layout: of the last case's inputs if `place` is 0, of its outputs if 1."""
    share, allocate, shared = SealedMemory._share, SealedMemory._allocate, []

    def share_and_keep(self, size, exits):
        mapping, descriptor = share(self, size, exits)
        shared.append(self._driver.open(descriptor, mapping.size))
        return mapping, descriptor

    def allocate_again(self, size, exits):
        *earlier, _, _ = shared
        return earlier[place - 2] if earlier and not hasattr(self, "offered") else allocate(self, size, exits)

    patch.setattr(SealedMemory, "_share", share_and_keep)
    patch.setattr(SealedMemory, "_allocate", allocate_again)


def read_where_the_player_says(patch):
    allocate, addresses = Orders.allocate, []

    def allocate_and_note(*args):
        allocated = allocate(*args)
        addresses[:] = allocated.addresses
        return allocated

    def read(self, _output, place, target, length):
        cpu.read_memory(self.orders.player.pid, addresses[1] + place, target, length)

    patch.setattr(Orders, "allocate", allocate_and_note)
    patch.setattr(Sealed, "_read", read)


def blame_the_judge_for_layouts(patch):
    allocate = Orders.allocate

    def allocate_as_the_judge(*args):
        try:
            return allocate(*args)
        except Foul as foul:
            raise JudgeError(f"a player could not map memory: {foul.message}") from None

    patch.setattr(Orders, "allocate", allocate_as_the_judge)


def blame_the_machine_for_kills(patch):
    def fail(_):
        raise machine_ran_out()

    patch.setattr(Memory, "check_kill", fail)


def read_everywhere(patch):
    patch.setattr(Sealed, "_refuse_size", lambda *_: None)


def read_large_outputs(patch):
    """Remove both limits of their size: that of the sealed memory, and that of any output."""
    read_everywhere(patch)
    patch.setattr("harness.reference.values._SLACK_BYTES", 1 << 40)


def count_no_outputs(patch):
    """Skip the count on arrival; a missing output still breaks the judge later."""

    def collect_uncounted(self, done, inputs):
        return [
            collect(output, partial(self._read, output), flat.span_bytes, self._device)
            for output, flat in zip(done.output, inputs, strict=False)
        ]

    patch.setattr(Sealed, "_collect", collect_uncounted)


def believe_the_players_clock(patch):
    """See `CLOCK`."""

    def seal(self):
        self._memory.seal()
        sealed = self._memory.sealed
        return struct.unpack("d", self._driver.read(sealed.address + sealed.size - 8, 8))[0]

    patch.setattr(Sealed, "_seal", seal)


def reveal_before_the_time_begins(patch):
    reveal = SealedMemory.reveal

    def reveal_twice(self, gate=0):
        reveal(self)
        time.sleep(10 * WAIT_S)
        reveal(self, gate)

    patch.setattr(SealedMemory, "reveal", reveal_twice)


def check_the_first_output_of_a_window(patch):
    play, check, unchecked = Sealed.play, Reference.check, object()

    def play_and_forget(*args, **options):
        us, outputs = play(*args, **options)
        return us, outputs[:1] + [unchecked] * len(outputs[1:])

    patch.setattr(Sealed, "play", play_and_forget)
    patch.setattr(Reference, "check", lambda *args: "" if args[2] is unchecked else check(*args))


CLOCK = """
kernel, clock = custom_kernel, (driver.event(), driver.event())
def custom_kernel(data):
    "The time that a player measures itself, by events in its default stream, is at the end of the outputs."
    driver.call("cuEventRecord", clock[0], None)
    output = kernel(data)
    driver.call("cuEventRecord", clock[1], None)
    driver.call("cuStreamSynchronize", None)
    end = Mapping(shared._mappings[1].address + shared._mappings[1].size - 8, 8)
    shared._bytes_of(end).view(torch.float64)[0] = driver.elapsed_us(*clock)
    return output
"""


def is_accepted(play, source, _):
    judgement = play(source)
    assert judgement.verdict is Verdict.ACCEPTED, judgement.message


def stops_the_judge(error, words, play, source, _):
    """The judge fails, instead of blaming the submission."""
    with pytest.raises(error, match=words):
        play(source)


def forges_its_time(play, source, patch):
    """The referee measures less than the kernel's work for some window, and accepts."""
    play_window, times_us = Sealed.play, []

    def note(*args, **options):
        us, outputs = play_window(*args, **options)
        times_us.append(us)
        return us, outputs

    patch.setattr(Sealed, "play", note)
    is_accepted(play, source, patch)
    assert min(times_us) < WAIT_S * 1e6


def forges_its_own_time(play, source, patch):
    forges_its_time(play, source + CLOCK, patch)


def learns_what_is_behind_the_outputs(play, source, patch):
    allocate, secret = SealedMemory._allocate, 0x5EC2

    def allocate_before_a_secret(self, size, exits):
        memory = allocate(self, size + 4096, exits)
        self._driver.write(memory.address + size, struct.pack("<H", secret))
        return replace(memory, size=size)

    patch.setattr(SealedMemory, "_allocate", allocate_before_a_secret)
    message = play(source).message
    said = re.search(r"is (\d+), expected", message)
    assert said and int(said[1]) >> 16 == secret, message


def has_more_checked_than_its_memory_holds(play, source, patch):
    check, sizes = Reference.check, []

    def note(self, data, output, regenerate=None):
        sizes.append(sum(part.numel() * part.element_size() for part in tensors(output)))
        return check(self, data, output, regenerate)

    patch.setattr(Reference, "check", note)
    play(source)
    assert max(sizes) > 2 << 20  # the least that the driver shares, and more than the tests need


SHRINKS = "memory that it tries to shrink"
ATTACKS = {**{name: code for name, (code, _) in CAUGHT.items()}, **HONEST}
SUCCEEDS = {
    "compute before the inputs are there": (give_an_untimed_window, is_accepted),
    "finish after it has said so": (seal_late, is_accepted),
    "answer before the work": (seal_late, is_accepted),
    "change the inputs": (check_against_the_players_inputs, is_accepted),
    "use where the inputs were in the last case": (partial(offer_inputs_where_the_last_case_had, 0), is_accepted),
    "map other memory in place of the outputs": (read_where_the_player_says, is_accepted),
    "swap inputs and outputs": (check_against_the_players_inputs, is_accepted),
    "map half of the outputs": (blame_the_judge_for_layouts, partial(stops_the_judge, JudgeError, "INVALID_VALUE")),
    "have too little memory of the device": (
        blame_the_judge_for_layouts,
        partial(stops_the_judge, JudgeError, "OUT_OF_MEMORY"),
    ),
    "end in the window": (blame_the_machine_for_kills, partial(stops_the_judge, JudgeError, "machine")),
    "answer with a place outside the memory": (read_everywhere, learns_what_is_behind_the_outputs),
    "answer with an address of the process": (read_everywhere, partial(stops_the_judge, JudgeError, "cuMemcpyDtoD")),
    "answer with many outputs in one place": (read_everywhere, has_more_checked_than_its_memory_holds),
    "answer with one element as many": (read_large_outputs, has_more_checked_than_its_memory_holds),
    "answer with more outputs than calls": (count_no_outputs, is_accepted),
    "answer with one output for no call": (
        count_no_outputs,
        partial(stops_the_judge, (IndexError, ValueError), "out of range|zip"),
    ),
    "a kernel on a stream of its own": (believe_the_players_clock, forges_its_own_time),
    "a thread that waits for the inputs from before the window on": (reveal_before_the_time_begins, forges_its_time),
    "clocks that stand still": (believe_the_players_clock, forges_its_own_time),
    "a second mapping of the outputs": (partial(offer_inputs_where_the_last_case_had, 1), forges_its_time),
}


@pytest.mark.exploit
@pytest.mark.parametrize(
    ("name", "switch_off", "succeeds"), [(name, *how) for name, how in SUCCEEDS.items()], ids=SUCCEEDS
)
def test_an_attack_on_sealed_memory_succeeds_with_a_defence_switched_off(play, monkeypatch, name, switch_off, succeeds):
    switch_off(monkeypatch)
    succeeds(play, attack(ATTACKS[name]), monkeypatch)


def judge_in_this_process(folder, library, source):
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    device = Device(name="cpu", driver=library)
    judge(load_task(Path(folder)).board("CPU"), submission(source), Mode.TEST, device=device)


@pytest.mark.exploit
def test_the_judge_crashes_if_the_driver_lets_a_player_shrink_its_memory(board, gpu):
    code = "import sys; from tests.test_sealed import judge_in_this_process as judge; judge(*sys.argv[1:])"
    done = subprocess.run(
        [sys.executable, "-c", code, board.task.folder, gpu.driver, attack(HONEST[SHRINKS])],
        env={**os.environ, "FAKE_GPU_SHRINKS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == -signal.SIGBUS, done.stderr


def test_each_attack_on_sealed_memory_is_shown_to_succeed_without_a_defence():
    assert ATTACKS.keys() - {SHRINKS} == SUCCEEDS.keys()


STALE = """
first = {}
def custom_kernel(data):
    place = data.data_ptr(), len(data)
    if place not in first:
        first[place] = data + 1
    return first[place]
"""


@pytest.mark.exploit
def test_the_answer_to_the_first_call_is_wrong_for_the_next_and_right_for_equal_inputs(play, monkeypatch):
    assert play(STALE, Mode.BENCHMARK).verdict is Verdict.WRONG_ANSWER
    leave_the_last_call_as_it_is(monkeypatch)
    assert play(STALE, Mode.BENCHMARK).verdict is Verdict.ACCEPTED


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
def test_every_output_of_a_window_with_several_calls_is_checked(play, monkeypatch):
    """Calls of one window follow each other at once; the referee works before the first one."""
    assert play(LAZY_IN_A_WINDOW, Mode.BENCHMARK).verdict is Verdict.WRONG_ANSWER
    check_the_first_output_of_a_window(monkeypatch)
    assert play(LAZY_IN_A_WINDOW, Mode.BENCHMARK).verdict is Verdict.ACCEPTED


# ---------------------------------------------------------------------- faults of the judge


def test_a_gpu_that_cannot_share_its_memory_is_the_judges_fault(board, gpu, monkeypatch):
    monkeypatch.setenv("FAKE_GPU_133", "1")
    with pytest.raises(JudgeError, match="Multi-Process Service is running"):
        judge(board, submission(GOOD), Mode.TEST, device=gpu)


def test_too_little_memory_for_the_referee_is_the_judges_fault(board, gpu, monkeypatch):
    monkeypatch.setenv("FAKE_GPU_BYTES", "1000")
    with pytest.raises(JudgeError, match="too little memory left for the referee"):
        judge(board, submission(GOOD), Mode.TEST, device=gpu)
