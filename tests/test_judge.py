"""Whole real judgings: a submission in, a judgement out, and no effect on the next one."""

import contextlib
import gc
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from harness.frame import Frame
from harness.judge import JudgeSession, judge
from harness.processes.other_work import OtherWork, OtherWorkRule
from harness.processes.starvation import LostTime, Starvation, _cpu_s
from harness.records.errors import JudgeError, TaskError
from harness.records.fields import CaseKind, Mode
from harness.records.judgement import Judgement
from harness.records.stats import DUEL_LOOKS, Interval, duel_interval, is_decided, median
from harness.records.verdict import Foul, Verdict
from harness.referee import referee, sampling
from harness.referee.sampling import SAMPLES, WARMUPS
from harness.reference.reference import Reference
from harness.rules import duel, examine, game
from harness.rules.context import Context
from harness.rules.phase import SideFoul
from harness.rules.quiet import Quiet
from harness.sandbox.health import Health
from harness.sandbox.player_handle import PlayerHandle
from harness.task import task_file
from harness.task.submission import Champion, Submission
from harness.task.task import Baseline, load_task
from tests import cores
from tests.loads import busy_loops

TINY = Path(__file__).parent / "tasks" / "tiny"
pytestmark = [pytest.mark.walls, pytest.mark.usefixtures("shared_sandbox")]

GOOD = "import torch\ndef custom_kernel(data):\n    return data + 1\n"
SLOW = "import time\ndef custom_kernel(data):\n    time.sleep(0.001)\n    return data + 1\n"
AROUND = "import torch, os, time\ndef custom_kernel(data):\n    {}\n"


@pytest.fixture(scope="module")
def board():
    return load_task(TINY).board("CPU")


def submission(source, login="sample"):
    return Submission(
        login=login, source=source if isinstance(source, bytes) else source.encode(), name="submission.py"
    )


def verdict_of(board, source, mode=Mode.TEST):
    return read_again(judge(board, submission(source), mode))


def read_again(judgement):
    assert Judgement.from_json(judgement.to_json()).verdict is judgement.verdict
    return judgement


@pytest.fixture
def session(board):
    """For files that differ only in their verdict; on all cores, of which the referee takes one."""
    ours = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores.ALL)
    try:
        with JudgeSession(replace(board, limits=replace(board.limits, case_timeout_s=1))) as session:
            yield session
    finally:
        os.sched_setaffinity(0, ours)


@pytest.fixture
def unsteady(monkeypatch):
    """For tests where times do not matter: a ranked benchmark ends after its six pairs of runs."""
    monkeypatch.setitem(game.STEADY_S, Mode.RANKED, 0.0)


@pytest.mark.parametrize(
    ("source", "verdict", "message"),
    [
        (GOOD, "AC", ""),
        (AROUND.format("print('é' * 10**6); return data + 1"), "AC", ""),
        (AROUND.format("return torch.stack([data, data + 1]).t()[:, 1]"), "AC", ""),
        (AROUND.format("return data.add_(1)"), "AC", ""),
        ("", "CE", "empty"),
        (b"\x7fELF\x00\x01", "CE", "binary"),
        ("#" * 300 * 1024, "CE", "256 KiB"),
        ("x = 1\n", "CE", "custom_kernel"),
        ("def custom_kernel(data:\n", "CE", "submission.py:1"),
        (GOOD + "raise RuntimeError('at import')\n", "CE", "at import"),
        (GOOD + "import nowhere\n", "CE", "nowhere"),
        (GOOD + "import os; os._exit(0)\n", "CE", "exit code 0"),
        (GOOD + "print('x' * 100_000_000)\n", "AC", ""),
        (AROUND.format("os._exit(0)"), "RTE", "exit code 0"),
        (AROUND.format("raise ValueError('odd')"), "RTE", "line 3: ValueError: odd"),
        (AROUND.format("return torch.ones(10**12)"), "MLE", "memory"),
        (AROUND.format("while True: pass"), "TLE",
         "took more than 1 s. In the build, the first call with size: 1, seed: 11 did not end, either. A call took more than 5 s."),
        (AROUND.format("return None"), "WA", "None"),
        (AROUND.format("return data[:0]"), "WA", "shape"),
        (AROUND.format("return data * float('nan')"), "WA", "nan"),
        (AROUND.format("return (data + 1).double()"), "WA", "float64"),
        (AROUND.format("return data.numpy() + 1"), "WA", "ndarray"),
        (AROUND.format("return (data + 1).to_sparse()"), "WA", "sparse"),
        (AROUND.format("return (data + 1).to('meta')"), "WA", "meta"),
        ("import torch\nclass Lazy(torch.Tensor): pass\n" + AROUND.format("return (data + 1).as_subclass(Lazy)"), "WA", "Lazy"),
        (AROUND.format("return torch.ones(1).expand(10**11)"), "WA", "bytes"),
        # No answer follows: if one arrived before the player is stopped, the message would be about the answer.
        (AROUND.format("os.write(900, b'{\"is\": \"accepted\"}'); time.sleep(60)"), "SV", "forged a message"),
    ],
)  # fmt: skip
def test_each_kind_of_submission_gets_its_verdict_and_a_message(session, source, verdict, message):
    judgement = read_again(session.judge(submission(source), Mode.TEST))
    assert (judgement.verdict, message in judgement.message) == (verdict, True), judgement.message


def test_memory_taken_bit_by_bit_still_exceeds_the_limit(board):
    patient = replace(board, limits=replace(board.limits, case_timeout_s=30, test_timeout_s=60))
    judgement = verdict_of(patient, AROUND.format("return [bytearray(b'x') * 2**26 for _ in range(40)]"))
    assert judgement.verdict is Verdict.MEMORY_LIMIT_EXCEEDED, judgement.message


LAZY = """
import os, time
if os.access("/cache", os.W_OK) and {is_lazy}:
    os.makedirs("/cache/inductor", exist_ok=True)
is_first = True
def custom_kernel(data):
    global is_first
    if is_first:
        mark = f"/cache/inductor/{{data.numel()}}"
        print("called first in the build:", os.path.exists(mark))
        {first}
    is_first = False
    return data + 1
"""
"""Leaves entries in the cache folder, like a file with torch.compile."""


def test_what_compiles_lazily_is_called_in_the_build_with_each_benchmark_first(session):
    judgement = session.judge(submission(LAZY.format(is_lazy=True, first="open(mark, 'w').close()")), Mode.BENCHMARK)
    assert judgement.verdict is Verdict.ACCEPTED, judgement.message
    assert "called first in the build: True" in judgement.log


@pytest.mark.parametrize(("is_lazy", "verdict"), [(True, Verdict.ACCEPTED), (False, Verdict.TIME_LIMIT_EXCEEDED)])
def test_the_first_call_of_what_compiles_lazily_may_take_longer(board, is_lazy, verdict):
    limits = replace(board.limits, case_timeout_s=0.5, compile_timeout_s=8)
    one_test = replace(board, tests=board.tests[:1], limits=limits)
    first = "open(mark, 'w').close() if os.path.isdir('/cache/inductor') else None; time.sleep(1)"
    assert judge(one_test, submission(LAZY.format(is_lazy=is_lazy, first=first)), Mode.TEST).verdict is verdict


def test_only_the_first_call_of_what_compiles_lazily_may_take_longer(board):
    limits = replace(board.limits, case_timeout_s=0.5, compile_timeout_s=8)
    two_tests = replace(board, tests=board.tests[:2], limits=limits)
    later = LAZY.format(is_lazy=True, first="open(mark, 'w').close()").replace(
        "    is_first = False", "    else: time.sleep(1)\n    is_first = False"
    )
    judgement = judge(two_tests, submission(later), Mode.TEST)
    assert [case.verdict.value for case in judgement.tests] == ["AC", "TLE"], judgement.message


def test_a_player_that_starts_late_has_all_of_its_time_to_be_imported(board, monkeypatch):
    """On a busy machine, the start of a sandbox may take longer than the limit of the import after it."""
    start_player = Context.start_player

    @contextlib.contextmanager
    def start_late(self, *about, **options):
        time.sleep(2.5)
        with start_player(self, *about, **options) as player:
            yield player

    monkeypatch.setattr(Context, "start_player", start_late)
    hurried = replace(board, limits=replace(board.limits, compile_timeout_s=2))
    assert verdict_of(hurried, GOOD).verdict is Verdict.ACCEPTED


def test_a_hanging_import_ends_within_the_compile_timeout(board):
    hurried = replace(board, limits=replace(board.limits, compile_timeout_s=3))
    judgement = verdict_of(hurried, GOOD + "while True: pass\n")
    assert judgement.verdict is Verdict.TIME_LIMIT_EXCEEDED
    assert judgement.cases[0].kind is CaseKind.BUILD


@pytest.mark.parametrize(("limit", "kind"), [("compile_timeout_s", CaseKind.BUILD), ("test_timeout_s", CaseKind.TEST)])
def test_processes_that_take_long_to_end_use_up_the_phase(board, monkeypatch, limit, kind):
    end = PlayerHandle._end

    def end_late(self):
        time.sleep(2.5)
        end(self)

    monkeypatch.setattr(PlayerHandle, "_end", end_late)
    monkeypatch.setattr(examine, "SLOW_END_S", 2.0)
    hurried = replace(board, limits=replace(board.limits, **{limit: 2.4}))
    judgement = verdict_of(hurried, GOOD)
    assert (judgement.verdict, judgement.cases[-1].kind) == (Verdict.TIME_LIMIT_EXCEEDED, kind)
    assert "s to measure its memory and end its processes; with that, this took" in judgement.message


def test_a_player_that_starts_and_ends_too_late_plays_no_test(board, monkeypatch):
    start, end = Context.start_player, PlayerHandle._end
    tests = []

    def late(self):
        time.sleep(1.1 * bool(tests))
        end(self)

    @contextlib.contextmanager
    def start_late(self, *about, building=False, **options):
        tests.extend([] if building else [1])
        time.sleep(1.1 * bool(tests))
        with start(self, *about, building=building, **options) as player:
            yield player

    monkeypatch.setattr(Context, "start_player", start_late)
    monkeypatch.setattr(PlayerHandle, "_end", late)
    monkeypatch.setattr(examine, "SLOW_END_S", 1.0)
    judgement = verdict_of(replace(board, limits=replace(board.limits, test_timeout_s=1.0)), GOOD)
    assert [case.message for case in judgement.tests] == ["Not played: the tests together took more than 1 s."] * 2


@pytest.mark.parametrize("act", ["raise Odd('odd')", "sys.exit(Hidden())", "raise Silent('x')"])
def test_whatever_a_submission_raises_its_line_is_named(session, act):
    classes = """
import sys
class Odd(BaseException): pass
class Hidden:
    def __repr__(self): raise KeyboardInterrupt
class Silent(Exception):
    def __str__(self): raise SystemExit
"""
    judgement = session.judge(submission(f"{classes}def custom_kernel(data):\n    {act}\n"), Mode.TEST)
    assert judgement.verdict is Verdict.RUN_TIME_ERROR
    assert judgement.message.startswith("line 9: ") and "_report_trouble" not in judgement.log


@pytest.mark.parametrize(
    ("mode", "action", "verdict"), [(Mode.TEST, "os._exit(1)", "RTE"), (Mode.BENCHMARK, "return data", "WA")]
)
def test_no_input_or_output_stays_in_memory_after_a_foul(board, mode, action, verdict):
    """The next player's may be as large, and on a GPU they may take most of its memory."""
    size = 54_321
    tests, benchmarks = ([replace(one, params={**one.params, "size": size}) for one in cases]
                         for cases in (board.tests, board.benchmarks))  # fmt: skip
    large = replace(board, **({"tests": tests} if mode is Mode.TEST else {"benchmarks": benchmarks}))
    source = AROUND.format(f"if len(data) == {size}: {action}\n    return data + 1")
    is_on = gc.isenabled()
    gc.disable()
    try:
        assert judge(large, submission(source), mode).verdict == verdict
        assert [one for one in gc.get_objects() if type(one) is torch.Tensor and one.numel() == size] == []
    finally:
        if is_on:
            gc.enable()


def test_every_failing_test_is_reported(session):
    judgement = session.judge(
        submission(AROUND.format("return data if data.numel() == 100 else os._exit(3)")), Mode.TEST
    )
    assert [case.verdict for case in judgement.tests] == ["RTE", "WA"]
    assert re.search(r"output\[\d+\] is .* expected", judgement.tests[1].message)


def test_a_stale_cached_output_is_a_wrong_answer_in_a_benchmark(session):
    # Cheats with a cache: answers a shape that it has seen before with the old answer.
    source = "seen = {}\ndef custom_kernel(data):\n    return seen.setdefault(data.shape, data + 1)\n"
    judgement = session.judge(submission(source), Mode.BENCHMARK)
    assert judgement.verdict is Verdict.WRONG_ANSWER
    assert "must write all of it in every call" in judgement.benchmarks[0].message
    assert judgement.benchmarks[0].timing is None


BUILDS_ONCE = """
import os, time
def custom_kernel(data):
    folder = os.environ["TORCH_EXTENSIONS_DIR"]
    if not os.path.exists(f"{folder}/built"):
        time.sleep(4)
        os.makedirs(folder, exist_ok=True)
        open(f"{folder}/built", "w").close()
    return data + 1
"""


def test_a_first_call_that_compiles_may_take_the_time_of_the_build(session):
    judgement = session.judge(submission(BUILDS_ONCE), Mode.TEST)
    assert judgement.verdict is Verdict.ACCEPTED, judgement.message


def test_the_log_is_that_of_the_player_that_crashed(session):
    kernel = (
        "    print('called with', data.numel())\n    return data + 1 if data.numel() == 100 else ctypes.string_at(0)\n"
    )
    judgement = session.judge(submission(f"import ctypes\ndef custom_kernel(data):\n{kernel}"), Mode.TEST)
    assert [case.verdict for case in judgement.tests] == ["RTE", "AC"]
    assert "called with 1\n" in judgement.log and "called with 100" not in judgement.log
    assert 'File "/entry/submission.py", line 4 in custom_kernel' in judgement.log


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (GOOD + "import sys\nsys.exit('no hipcc')\n", "line 5: RuntimeError: called sys.exit('no hipcc')"),
        (GOOD + "from reference import ref_kernel\n", "submissions do not see the task's reference"),
        (GOOD + "from utils import x\n", "No module named 'utils'; it is not installed for this board. Check the name, or ask"),
        (GOOD + "try:\n  1 / 0\nexcept Exception as e:\n  raise OSError('no build') from e\n",
         "Caused by ZeroDivisionError: division by zero"),
        (GOOD + "try:\n  import nowhere\nexcept ImportError:\n  import reference\n", "do not see the task's reference"),
        (GOOD + "try:\n  raise MemoryError\nexcept MemoryError:\n  raise OSError('x')\n", "Raised while handling MemoryError"),
        (GOOD + "raise OSError('begins' + ' ' * 20000 + 'en' + 'ds')\n", " ends"),
    ],
)  # fmt: skip
def test_the_message_of_a_failed_import_helps_its_author(session, source, message):
    judgement = session.judge(submission(source), Mode.TEST)
    assert judgement.verdict is Verdict.COMPILE_ERROR and message in judgement.message, judgement.message


def test_a_submission_has_no_arguments_to_parse(session):
    source = "import argparse\nargparse.ArgumentParser().parse_args()\n" + GOOD
    assert session.judge(submission(source), Mode.TEST).verdict is Verdict.ACCEPTED


def test_a_ranked_judgement_keeps_every_sample_beside_the_anchor(board):
    judgement = verdict_of(board, GOOD, Mode.RANKED)
    timing = judgement.benchmarks[0].timing
    assert judgement.is_rankable
    assert len(timing.submission) == len(timing.anchor) >= 6
    assert all(len(run.samples_us) >= 10 for run in timing.submission + timing.anchor)
    seeds = [seed for run in timing.submission + timing.anchor for seed in run.seeds]
    assert len(set(seeds)) == len(seeds)
    assert 13 not in seeds
    orders = [run.order for run in timing.submission]
    assert orders[:4] == [0, 3, 4, 7]
    assert timing.bound_us >= timing.overhead_us


def test_only_one_input_is_made_for_all_windows_of_an_idle_player(board, unsteady, monkeypatch):
    made = []
    generate = Reference.generate
    monkeypatch.setattr(Reference, "generate", lambda *given: made.append(given[2]) or generate(*given))
    timing = judge(board, submission(GOOD), Mode.RANKED).benchmarks[0].timing
    seeds = [seed for run in timing.submission + timing.anchor for seed in run.seeds]
    assert made.count(seeds[0]) == 1
    # The others are of tests, of the build, of the idle players, and of runs that other work disturbed.
    assert len([seed for seed in made if seed not in seeds]) < len(timing.submission) * (WARMUPS + SAMPLES)


def test_the_overhead_is_measured_with_each_pair(board, unsteady, monkeypatch):
    measured_us = []
    measure = sampling.player_overhead
    monkeypatch.setattr(sampling, "player_overhead", lambda *of: measured_us.append(measure(*of)) or measured_us[-1])
    timing = judge(board, submission(GOOD), Mode.RANKED).benchmarks[0].timing
    assert len(measured_us) == len(timing.submission)
    assert timing.overhead_us == median(measured_us)


def test_a_slower_kernel_has_a_ratio_above_one(session):
    slow = "import time\ndef custom_kernel(data):\n    end = time.perf_counter() + 0.002\n    while time.perf_counter() < end: pass\n    return data + 1\n"
    timing = session.judge(submission(slow), Mode.BENCHMARK).benchmarks[0].timing
    # A busy machine makes it longer; nothing makes it shorter than its work minus the overhead and our loop.
    loop_us = timing.bound_us - timing.overhead_us
    for run, overhead_us in zip(timing.submission, timing.overheads_us, strict=True):
        assert min(run.samples_us) >= 2000 - overhead_us - loop_us
    assert timing.ratio.value > 1


def test_a_call_that_stalls_counts_in_every_run(session):
    """Otherwise a file could do slow work in one call of ten that makes the others faster."""
    body = "global calls\n    calls += 1\n    if calls == 7: time.sleep(0.3)\n    return data + 1"
    stalling = f"import time\ncalls = 0\ndef custom_kernel(data):\n    {body}\n"
    runs = session.judge(submission(stalling), Mode.BENCHMARK).benchmarks[0].timing.submission
    assert all(run.time_us > 300_000 / 64 for run in runs)


def test_a_challenger_duels_and_beats_a_slower_champion(board, unsteady):
    slow = submission(SLOW, "slow-sample")
    champion = Champion(submission=slow, score=Interval(value=1000, low=990, high=1010), nominal_us=(10.0,))
    judgement = judge(board, submission(GOOD), Mode.RANKED, champion=champion)
    assert judgement.duel.opponent == "slow-sample"
    assert judgement.duel.won
    (case,) = judgement.duel.cases
    ratios = [ours / theirs for ours, theirs in case.block_times_us]
    assert case.blocks == next(look for look in DUEL_LOOKS if is_decided(duel_interval(ratios[:look])))


def test_a_challenger_far_behind_gets_no_duel(board, unsteady):
    score = Interval(value=0.1, low=0.09, high=0.11)
    champion = Champion(submission=submission(GOOD, "x"), score=score, nominal_us=(10.0,))
    assert judge(board, submission(SLOW), Mode.RANKED, champion=champion).duel is None


def test_a_judgement_says_whether_its_file_is_a_baseline_of_the_task(board):
    baseline = Baseline(name="torch.add", path=TINY / "add.py", digest=submission(GOOD).digest)
    named = replace(board, task=replace(board.task, baselines=(baseline,)))
    assert verdict_of(named, GOOD).baseline == "torch.add"
    assert verdict_of(named, GOOD + "\n").baseline == ""


def test_a_judgement_without_a_sandbox_says_so_and_cannot_rank(board, unsteady):
    judgement = judge(board, submission(GOOD), Mode.RANKED, sandbox="none")
    assert judgement.verdict is Verdict.ACCEPTED
    assert (judgement.sandbox.kind, judgement.claim, judgement.is_rankable) == ("none", "self-timed", False)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("return data + 1", "raise KeyError('lost')", r"reference\.py:12: ref_kernel: KeyError"),
        ("return data + 1", "return data.add_(1) * 1", r"reference\.py:11: ref_kernel changes its input"),
        ("return data + 1", "return object()", r"reference\.py:11: ref_kernel returns"),
        ("return compare(", "return len(", r"reference\.py:16: check_implementation"),
    ],
)
def test_a_faulty_reference_is_the_tasks_fault(tmp_path, old, new, message):
    folder = tmp_path / "tiny"
    folder.mkdir()
    for path in TINY.glob("**/*.*"):
        target = folder / path.relative_to(TINY)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(path.read_text())
    reference = folder / "reference.py"
    assert old in reference.read_text()
    reference.write_text(reference.read_text().replace(old, new))
    with pytest.raises(TaskError, match=message):
        judge(load_task(folder).board("CPU"), submission(GOOD), Mode.TEST)


def test_an_output_may_be_larger_than_its_inputs_but_not_much_larger_than_a_right_one(tmp_path):
    """The reference returns 100 MB for 4 kB."""
    folder = tmp_path / "tiny"
    shutil.copytree(TINY, folder)
    text = (folder / "reference.py").read_text()
    (folder / "reference.py").write_text(text.replace("return data + 1", "return data.new_ones(25_000_000) + data[0]"))
    board = load_task(folder).board("CPU")
    board = replace(board, tests=board.tests[:1])
    right = AROUND.format("return data.new_ones(25_000_000) + data[0]")
    assert verdict_of(board, right).verdict is Verdict.ACCEPTED
    judgement = verdict_of(board, right.replace("return", "out =") + "    return [out] * 4\n")
    assert judgement.verdict is Verdict.WRONG_ANSWER
    assert "The output spans 400000000 bytes; the limit is 267108864" in judgement.message


def test_an_output_buffer_inside_the_input_is_poisoned_and_not_trusted(tmp_path):
    folder = tmp_path / "buffer"
    (folder / "examples" / "accepted").mkdir(parents=True)
    (folder / "examples" / "wrong_answer").mkdir()
    (folder / "task.yml").write_text(
        "title: B\ndescription: d\ngpus: [CPU]\ntests: [{size: 64, seed: 1}]\nbenchmarks: [{size: 64, seed: 1}]\n"
    )
    (folder / "reference.py").write_text(
        "import torch\nfrom harness.checker import compare\n"
        "def generate_input(size, seed):\n    torch.manual_seed(seed)\n    return torch.randn(size), torch.zeros(size)\n"
        "def ref_kernel(data):\n    x, out = data\n    out[:] = (x > 9).float()\n    return out\n"
        "def check_implementation(data, output):\n    return compare(output, ref_kernel(data), rtol=0, atol=0)\n"
    )
    (folder / "task.py").write_text("")
    good = "def custom_kernel(data):\n    x, out = data\n    out[:] = (x > 9).float()\n    return out\n"
    lazy = "def custom_kernel(data):\n    return data[1]\n"
    (folder / "examples" / "accepted" / "good.py").write_text(good)
    (folder / "examples" / "wrong_answer" / "lazy.py").write_text(lazy)
    board = load_task(folder).board("CPU")
    assert judge(board, submission(good), Mode.TEST).verdict is Verdict.ACCEPTED
    assert judge(board, submission(lazy), Mode.TEST).verdict is Verdict.WRONG_ANSWER


def test_a_judgement_is_plain_json_with_a_checksum(session):
    fields = json.loads(session.judge(submission(GOOD), Mode.TEST).to_json())
    assert fields["format"] == "pullrank-judgement"
    assert re.fullmatch("[0-9a-f]{64}", fields["checksum"])


@pytest.mark.parametrize(
    ("body", "verdict"),
    [
        ("return data", "WA"),
        ("os._exit(1)", "RTE"),
        ("raise MemoryError", "MLE"),
    ],
)
def test_a_champion_that_fails_twice_loses_the_duel(board, unsteady, body, verdict):
    judgement = read_again(judge(board, submission(GOOD), Mode.RANKED, champion=champion_of(AROUND.format(body))))
    assert (judgement.verdict, judgement.duel) == (Verdict.ACCEPTED, None)
    assert judgement.forfeit and judgement.forfeit.verdict == verdict
    assert (judgement.forfeit.opponent, "wins the duel" in judgement.message) == ("former-sample", True)


def test_a_champion_that_fails_once_is_dueled(board, unsteady):
    """Its first import in a benchmark fails, which it recognizes by the time; then it is slow, so one look decides."""
    late = time.time() + 12
    once = f"import time\nif time.time() < {late}: time.sleep(max(0, {late} - time.time())); 1 / 0\n" + SLOW
    patient = replace(board, limits=replace(board.limits, compile_timeout_s=60))
    judgement = judge(patient, submission(GOOD), Mode.RANKED, champion=champion_of(once))
    assert judgement.duel and not judgement.forfeit, judgement.message


def test_a_champion_whose_imports_together_take_too_long_loses_the_duel(board, unsteady, monkeypatch):
    """Each import is within its limit; those of the first eight blocks would take 13 s, and 8 s are allowed."""
    monkeypatch.setattr(task_file, "IMPORT_S", 0.5)
    judgement = judge(
        board, submission(GOOD), Mode.RANKED, champion=champion_of("import time\ntime.sleep(0.8)\n" + GOOD)
    )
    assert judgement.forfeit and judgement.forfeit.verdict is Verdict.TIME_LIMIT_EXCEEDED, judgement.message
    assert judgement.forfeit.message.startswith("Its imports together took more than 8 s in the duel;")


def test_a_duel_is_stopped_only_if_it_takes_twice_as_long_as_planned(board, unsteady, monkeypatch):
    phases = []
    monkeypatch.setattr(
        Context, "phase", lambda *given, phase=Context.phase, **more: phases.append(phase(*given, **more)) or phases[-1]
    )
    monkeypatch.setattr(duel, "LONGEST_EXTENDED_DUEL_S", 400.0)
    judgement = judge(board, submission(GOOD), Mode.RANKED, champion=champion_of(SLOW))
    (played,) = [one for one in phases if one.name == "the duel"]
    assert judgement.duel and (board.limits.ranked_timeout_s, played.deadline.phase_s) == (180, 800)


def test_a_champion_that_makes_the_judge_fail_does_not_keep_others_off_the_board(board, unsteady, monkeypatch):
    start_player = Context.start_player

    def failing(self, entry, *, building=False):
        if entry.name == "champion" and not building:
            raise JudgeError("the sandbox broke")
        return start_player(self, entry, building=building)

    monkeypatch.setattr(Context, "start_player", failing)
    checks = []
    monkeypatch.setattr(Health, "check_thoroughly", lambda *given: checks.append(given))
    judgement = judge(board, submission(GOOD), Mode.RANKED, champion=champion_of(SLOW))
    assert len(checks) == 2  # before and after the duel
    assert (judgement.verdict, judgement.duel, judgement.forfeit) == (Verdict.ACCEPTED, None, None)
    assert judgement.message == "The duel with former-sample is void: the sandbox broke"


@pytest.mark.parametrize("failing", ["health", "GPU", "company"])
def test_what_a_champion_leaves_behind_makes_the_duel_void_and_not_the_judging(board, unsteady, monkeypatch, failing):
    """As if the champion had changed the machine, heated up the GPU, or left work to the kernel that nothing ends."""
    began = []
    play_duel = game.play_duel
    monkeypatch.setattr(game, "play_duel", lambda *given, **more: began.append(given) or play_duel(*given, **more))

    def fails(*_):
        if began:
            raise JudgeError("something is left")

    if failing == "health":
        monkeypatch.setattr(Health, "check_thoroughly", fails)
    elif failing == "GPU":
        monkeypatch.setattr(Frame, "require_was_unhindered", fails)
    else:
        monkeypatch.setattr(Quiet, "wait", fails)
        monkeypatch.setattr(Quiet, "must_repeat", lambda *_, **__: False)
    rule = OtherWorkRule.REFUSE if failing == "company" else OtherWorkRule.ALLOW
    judgement = judge(board, submission(GOOD), Mode.RANKED, champion=champion_of(SLOW), other_work=rule)
    assert began
    assert (judgement.verdict, judgement.duel, judgement.forfeit) == (Verdict.ACCEPTED, None, None)
    assert judgement.message == "The duel with former-sample is void: something is left"
    assert judgement.benchmarks[0].timing


def test_a_challenger_that_fails_in_a_duel_after_which_the_machine_is_broken_is_not_blamed(
    board, unsteady, monkeypatch
):
    def play_duel(*_, **__):
        monkeypatch.setattr(Health, "check_thoroughly", fails)
        (case,) = board.benchmarks
        raise SideFoul("submission", case, Foul(Verdict.WRONG_ANSWER, "wrong once"))

    def fails(*_):
        raise JudgeError("something is left")

    monkeypatch.setattr(game, "play_duel", play_duel)
    with pytest.raises(JudgeError, match="something is left"):
        judge(board, submission(GOOD), Mode.RANKED, champion=champion_of(SLOW))


@pytest.mark.parametrize("owner", [Health, Frame])
def test_what_a_challenger_leaves_behind_makes_its_judging_void(board, unsteady, monkeypatch, owner):
    def fails(*_):
        raise JudgeError("something is left")

    monkeypatch.setattr(owner, "check_thoroughly" if owner is Health else "require_was_unhindered", fails)
    with pytest.raises(JudgeError, match="something is left"):
        judge(board, submission(GOOD), Mode.RANKED, champion=champion_of(SLOW))


def test_a_champions_build_is_called_on_the_tests_too(board, unsteady):
    """Its build notes the sizes in the cache, and its other players fail unless the tests' sizes are among them."""
    noting = """
SIZES = open("/cache/sizes").read().split() if os.path.exists("/cache/sizes") else None
def custom_kernel(data):
    time.sleep(0.001)
    if SIZES is None:
        with open("/cache/sizes", "a") as noted:
            noted.write(f"{len(data)} ")
        return data + 1
    return data + ("1" in SIZES and "100" in SIZES)
"""
    champion = champion_of("import os, time\n" + noting)
    judgement = judge(board, submission(GOOD), Mode.RANKED, champion=champion)
    assert judgement.duel and not judgement.forfeit, judgement.message


def champion_of(source):
    """A champion that any submission beats."""
    return Champion(
        submission=submission(source, "former-sample"),
        score=Interval(value=1e6, low=1e6, high=1e6),
        nominal_us=(10.0,),
    )


def test_a_champion_matters_only_in_ranked_mode(board):
    champion = Champion(submission=submission(GOOD, "x"), score=Interval(value=1, low=1, high=1), nominal_us=(10.0,))
    assert judge(board, submission(GOOD + "#"), Mode.TEST, champion=champion).verdict is Verdict.ACCEPTED


def test_an_output_of_thousands_of_numbers_is_wrong_but_not_tampering(session):
    judgement = session.judge(submission(AROUND.format("return list(range(5000))")), Mode.TEST)
    assert judgement.verdict is Verdict.WRONG_ANSWER


def test_a_slow_import_does_not_use_up_the_shared_benchmark_time(board):
    slow = "import time\ntime.sleep(1.2)\n" + GOOD
    hurried = replace(board, limits=replace(board.limits, benchmark_timeout_s=7))  # already the six imports take longer
    assert verdict_of(hurried, slow, Mode.BENCHMARK).verdict is Verdict.ACCEPTED


def test_a_too_slow_import_in_a_benchmark_exceeds_the_time_limit(board, monkeypatch):
    monkeypatch.setattr(task_file, "IMPORT_S", 0.3)
    judgement = verdict_of(board, "import time\ntime.sleep(0.6)\n" + GOOD, Mode.BENCHMARK)
    assert judgement.verdict is Verdict.TIME_LIMIT_EXCEEDED
    assert "Importing the submission took more than 0.3 s (in a benchmark" in judgement.message


@pytest.mark.alone
def test_a_judgement_says_that_other_work_disturbed_its_runs(board, all_cores):
    """A loop takes at least half of the players' core, also while a player is stopped."""
    with busy_loops(1, max(all_cores)):
        judgement = judge(board, submission(GOOD), Mode.BENCHMARK)
    assert judgement.verdict is Verdict.ACCEPTED, judgement.message
    assert not judgement.machine.quiet
    assert re.search(r"Other work took up to [0-9]+% of a core in [0-9]+ of [0-9]+ runs\.", judgement.machine.note)


@pytest.mark.alone
def test_the_judge_shows_that_it_waits_for_idle_cores(board, all_cores):
    """Another program runs from the first benchmark on, until the judge shows that it waits."""
    steps = []
    with contextlib.ExitStack() as other_work:

        def show(progress):
            if progress.step == "benchmark" and "benchmark" not in steps:
                other_work.enter_context(busy_loops(1, max(all_cores)))
            if progress.step == "waiting for idle cores":
                other_work.close()
            steps.append(progress.step)

        judge(board, submission(GOOD), Mode.BENCHMARK, on_progress=show, other_work=OtherWorkRule.AVOID)
    assert "waiting for idle cores" in steps
    assert steps[steps.index("waiting for idle cores") + 1] == "benchmark"


@pytest.mark.alone
def test_long_calls_in_which_the_referee_sleeps_are_not_other_work(board, all_cores):
    """Real other work disturbs a file that does not sleep, too.  A sleep that counts takes 74 % of a core."""
    sleeps = AROUND.format("time.sleep(0.4)\n    return data + 1")
    shares = []
    with JudgeSession(board) as session:
        while len(shares) < 3 and all(shares):
            judgement = session.judge(submission(sleeps), Mode.BENCHMARK, pairs=1)
            assert judgement.verdict is Verdict.ACCEPTED and judgement.benchmarks, judgement.message
            shares.append(other_work_of(judgement))
        if all(shares):
            assert min(shares) < 65 and other_work_of(session.judge(submission(GOOD), Mode.BENCHMARK, pairs=1))


def other_work_of(judgement):
    """The largest share of a core that other work took in a run, in percent; 0 if the judgement notes none."""
    noted = re.search(r"Other work took up to ([0-9]+)% of a core", judgement.machine.note)
    return int(noted[1]) if noted else 0


def judge_beside_loops(board, source, **limits):
    """Judge beside loops that start after the sandbox, and take two thirds of the players' core."""
    with JudgeSession(replace(board, tests=board.tests[:1], limits=replace(board.limits, **limits))) as session:
        assert session.judge(submission(GOOD), Mode.TEST).verdict is Verdict.ACCEPTED
        with busy_loops(2, max(cores.ALL)):
            return session.judge(submission(source), Mode.TEST)


def test_a_referee_that_waits_long_leaves_its_core_to_others(board, all_cores):
    sleeps = AROUND.format("time.sleep(1)\n    return data + 1")
    with JudgeSession(board) as session:
        session.judge(submission(GOOD), Mode.TEST)
        began = time.process_time()
        judgement = session.judge(submission(sleeps), Mode.TEST)
        worked_s = time.process_time() - began
    assert judgement.verdict is Verdict.ACCEPTED, judgement.message
    assert worked_s < sum(case.seconds for case in judgement.tests) / 2


@pytest.mark.alone
def test_an_honest_call_does_not_exceed_its_limit_because_of_other_programs(board, all_cores):
    """It computes for 0.7 s of its limit of 1 s, on a core of which it gets a third."""
    works = AROUND.format(
        "end = time.process_time() + 0.7\n    while time.process_time() < end: pass\n    return data + 1"
    )
    judgement = judge_beside_loops(board, works, case_timeout_s=1)
    assert judgement.verdict is Verdict.ACCEPTED, judgement.message
    assert max(case.seconds for case in judgement.tests) > 1.4, "the loops took no time"


@pytest.mark.alone
def test_an_endless_call_exceeds_its_limit_beside_other_programs_too(board, all_cores):
    """Its own children do not count as other programs."""
    body = "[os.fork() for _ in range(3)]\n    while True: pass"
    judgement = judge_beside_loops(board, AROUND.format(body), case_timeout_s=1, compile_timeout_s=4)
    assert judgement.verdict is Verdict.TIME_LIMIT_EXCEEDED, judgement.message


def test_a_waiting_program_starves_and_a_sleeping_one_does_not():
    core = min(cores.own())
    with busy_loops(1, core), contextlib.ExitStack() as cleanup:
        loop, sleeper = (
            subprocess.Popen(["sh", "-c", text], start_new_session=True)
            for text in ("while :; do :; done", "sleep 60; exit")
        )
        for program in (loop, sleeper):
            cleanup.callback(program.wait)
            cleanup.callback(program.kill)
            os.sched_setaffinity(program.pid, {core})
        time.sleep(0.1)
        began, measured = time.monotonic(), [Starvation({core}, [one.pid]) for one in (loop, sleeper)]
        time.sleep(1.5)
        starved_s, slept_s = (
            one.seconds([program.pid]) for one, program in zip(measured, (loop, sleeper), strict=True)
        )
        assert 0.3 < starved_s < time.monotonic() - began
        assert slept_s < 0.1
        assert measured[0].seconds([]) == 0.0, "a process that has ended does not wait"


@pytest.mark.alone
@pytest.mark.skipif(len(cores.ALL) < 2, reason="needs two cores")
def test_programs_on_other_cores_do_not_keep_a_player_from_running(all_cores):
    """What took its core has ended, so without a cgroup only a program on another core could be blamed."""
    core, other = sorted(all_cores)[:2]
    burn = "import time\nend = time.monotonic() + 1.5\nwhile time.monotonic() < end: pass\nprint(time.process_time())"
    with busy_loops(1, core) as (known,), busy_loops(1, other):
        time.sleep(0.2)
        counted = Starvation({core}, [known], find_cpu_s=lambda: _cpu_s(known))
        blind = Starvation({core}, [known])
        command = ["taskset", "--cpu-list", str(core), sys.executable, "-c", burn]
        burned_s = float(subprocess.run(command, capture_output=True, check=True).stdout)
        assert burned_s > 0.1
        assert counted.seconds([known]) - blind.seconds([known]) > burned_s / 2


@pytest.mark.alone
def test_the_keepers_work_on_a_players_output_is_not_another_programs(all_cores):
    """Beside the player, the keeper takes half of the core; a cgroup counts the player's time only."""
    core = max(all_cores)
    with busy_loops(2, core) as (player, keeper):
        time.sleep(0.2)
        group = SimpleNamespace(find_cpu_s=lambda: _cpu_s(player), processes=lambda: [player])
        with_keeper, blind = LostTime({core}, keeper, group, ()), Starvation({core}, [player], (), group.find_cpu_s)
        with_keeper.begin()
        began_s = _cpu_s(keeper)[0]
        time.sleep(1.5)
        kept_s = _cpu_s(keeper)[0] - began_s
        assert blind.seconds([player]) - with_keeper.measure() > kept_s / 2 > 0


def test_our_own_yielding_processes_do_not_count_as_starving_a_player():
    core = min(cores.own())
    with contextlib.ExitStack() as cleanup:
        spinner, loop = (subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(2))
        for program in (spinner, loop):
            cleanup.callback(program.wait)
            cleanup.callback(program.kill)
            os.sched_setaffinity(program.pid, {core})
        time.sleep(0.1)
        clock = ~spinner.pid << 3 | 2
        counted, not_counted = (Starvation({core}, [loop.pid], ours) for ours in ([], [spinner.pid]))
        began_s = time.clock_gettime(clock)
        time.sleep(1.5)
        spun_s = time.clock_gettime(clock) - began_s
        assert counted.seconds([loop.pid]) - not_counted.seconds([loop.pid]) > spun_s / 2 > 0


def test_time_a_spinner_misses_while_the_player_is_stopped_counts_as_other_work():
    with subprocess.Popen(["sh", "-c", "while :; do :; done"]) as spinner:
        try:
            spinner.send_signal(signal.SIGSTOP)
            other_work = OtherWork([spinner.pid])
            began = time.monotonic()
            other_work.begin()
            time.sleep(0.05)
            other_work.look(running_s=0.0)
            assert other_work.share > 0.95
            before = time.monotonic()
            other_work.look(running_s=before - began)
            assert time.monotonic() - before > 0.005, (
                "the judge measures for a moment if the player ran nearly all the time"
            )
            assert other_work.share > 0.95
            gone = OtherWork([spinner.pid])
            gone.begin()
        finally:
            spinner.kill()
    for unmeasured in (gone, OtherWork([spinner.pid]), OtherWork([])):
        unmeasured.begin()
        unmeasured.look(running_s=0.0)
        assert unmeasured.share == 0.0


@pytest.mark.parametrize("batch_bytes", [0, 1 << 20])
def test_only_inputs_too_large_for_a_batch_are_checked_without_a_copy(board, monkeypatch, batch_bytes):
    check, has_copy = Reference.check, set()

    def watched(self, data, output, again=None):
        has_copy.add(again is None)
        return check(self, data, output, again)

    monkeypatch.setattr(Reference, "check", watched)
    monkeypatch.setattr(referee, "_BATCH_BYTES", batch_bytes)
    assert verdict_of(board, GOOD, Mode.BENCHMARK).verdict is Verdict.ACCEPTED
    assert verdict_of(board, GOOD.replace("+ 1", "+ 2")).message.startswith("output[0] is ")
    assert has_copy == {batch_bytes > 0}
