"""Tasks with their own program: the judge trusts neither its output nor its times, and claims no more for them.

kernelbot/own.yaml    three rewritten tasks: judged by a Python program, by a C++ program, and by one that starts
                          several ranks; each example's folder names its verdict
"""

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from harness.judge import duel, judge
from harness.processes import freezer
from harness.records.errors import TaskError
from harness.records.fields import CaseKind, Mode
from harness.records.judgement import Claim, Judgement
from harness.records.stats import MIN_PAIRS
from harness.records.verdict import Foul, Verdict
from harness.rules.kernelbot_output import MAX_BYTES, MAX_LINE_BYTES, Lines, case_line, mode_argument
from harness.sandbox.player_handle import PlayerHandle
from harness.task.submission import Submission, read_submission
from harness.task.task import Task, load_task
from scripts.cli import run
from tests.loads import busy_loops

SET = Path(__file__).parent / "kernelbot" / "own.yaml"
SHIPPED = Path(__file__).parent.parent / "tasks"
TESTS = b"test-count: 2\ntest.0.spec: size: 3\ntest.0.status: pass\n"
TIMES = b"".join(
    b"benchmark.0.%s: %s\n" % pair
    for pair in (
        (b"runs", b"10"),
        (b"mean", b"2000.5"),
        (b"std", b"0"),
        (b"err", b"0"),
        (b"best", b"2e3"),
        (b"worst", b"3000"),
    )
)
BENCHMARKS = b"benchmark-count: 1\n" + TIMES


# Lines.


def told(text: bytes, kind: CaseKind = CaseKind.TEST, cases: int = 2, seconds: float = 1.0):
    lines = Lines(kind, cases)
    step = 7 if len(text) < 500_000 else 65_537
    for start in range(0, len(text), step):  # like pipes, regardless of lines
        lines.feed(text[start : start + step])
    return lines.end(seconds)


def refusal(text: bytes, kind: CaseKind = CaseKind.TEST, cases: int = 2, seconds: float = 1.0) -> str:
    with pytest.raises(Foul) as caught:
        told(text, kind, cases, seconds)
    assert caught.value.verdict is Verdict.SECURITY_VIOLATION
    assert caught.value.message.isprintable()
    return caught.value.message


def test_the_program_reports_right_and_wrong_tests_with_their_messages():
    first, second = told(TESTS + b"test.1.status: fail\ntest.1.error: row 3:\\nis 4\ncheck: fail\n")
    assert first and first.is_right
    assert second and (second.is_right, second.message) == (False, "row 3:\nis 4")


def test_the_program_reports_times_in_nanoseconds():
    (one,) = told(BENCHMARKS + b"check: pass\n", CaseKind.BENCHMARK, 1)
    assert one and one.times
    assert (one.times.calls, one.times.mean_us, one.times.best_us) == (10, 2.0005, 2.0)


def test_other_keys_blank_lines_and_windows_line_ends_pass():
    assert all(told(b"system.gpu: none\r\n\r\n" + TESTS + b"test.1.status: pass\r\ncheck: pass\r\n"))


def test_the_judge_ignores_keys_of_a_case_beyond_the_protocol():
    text = BENCHMARKS + b"benchmark.0.bytes_per_s: 1e12\nbenchmark.0.message: 1.4 times as fast\ncheck: pass\n"
    (one,) = told(text, CaseKind.BENCHMARK, 1)
    assert one and one.is_right and one.times
    assert all(told(TESTS + b"test.1.status: pass\ntest.1.max_error: 0.1\ncheck: pass\n"))


@pytest.mark.parametrize(
    "text", [b"check: fail\nerror: no function\n'forward'\n", b"error: no function\n'forward'\ncheck: fail\n"]
)
def test_the_error_of_a_whole_run_may_precede_or_follow_the_verdict(text):
    with pytest.raises(Foul, match=r"^no function\n'forward'$") as caught:
        told(text)
    assert caught.value.verdict is Verdict.WRONG_ANSWER


def test_a_message_continues_over_lines_until_the_next_protocol_key():
    text = (
        TESTS
        + b"test.1.status: fail\ntest.1.error: two differ\n  (0, 1): 3\nexpected: 4\ngot: 5\ngot: 6\ncheck: fail\n"
    )
    _, second = told(text)
    assert second and second.message == "two differ\n  (0, 1): 3\nexpected: 4\ngot: 5\ngot: 6"


def test_an_unreported_case_is_missing_and_leaves_no_verdict():
    lines = Lines(CaseKind.TEST, 2)
    lines.feed(TESTS + b"test.1.status: pa")
    first, second = lines.end(1.0)
    assert first and second is None and not lines.is_complete


REFUSED = {
    "no text": (b"test.0.error: \xff\n", "line 4 is invalid: not UTF-8"),
    "no key": (b"all is well\n", "not 'key: value' but 'all is well'"),
    "a key of other letters": (b"che\xd1\x81k: pass\n", "not 'key: value' but 'che\\u0441k: pass'"),
    "control characters": (b"\x1b[2Jcheck: pass\n", "not 'key: value' but '\\x1b[2J"),
    "the same twice": (b"test.0.status: pass\n", "duplicate key 'test.0.status'"),
    "another verdict then": (b"test.1.status: pass\ncheck: pass\ncheck: fail\n", "duplicate key 'check'"),
    "more after the verdict": (b"test.1.status: pass\ncheck: pass\nnote: x\n", "'note' comes after the verdict"),
    "an error after a pass": (b"test.1.status: pass\ncheck: pass\nerror: x\n", "'error' comes after the verdict"),
    "a line that is cut off after it": (b"test.1.status: pass\ncheck: pass\nno", "the last line is incomplete"),
    "a case that there is not": (b"test.2.status: pass\n", "'test.2.status' must be about the 2 tests that the program was given"),
    "a case below none": (b"test.-1.status: pass\n", "'test.-1.status' is not a key of a test"),
    "a case with noughts": (b"test.01.status: pass\n", "is not a key of a test"),
    "a huge case": (b"test.99999999999999999999.status: pass\n", "is not a key of a test"),
    "a time of a test": (b"test.0.mean: 1\n", "is not a key of a test"),
    "a benchmark among tests": (TIMES, "is not a key of a test"),
    "another verdict on a case": (b"test.1.status: perhaps\n", "must be pass or fail, not 'perhaps'"),
    "another verdict on all": (b"check: passed\n", "'check' must be pass or fail"),
    "a pass without a case": (b"check: pass\n", "check: pass, but its cases say otherwise"),
    "a pass with a wrong case": (b"test.1.status: fail\ncheck: pass\n", "check: pass, but its cases say otherwise"),
    "a fail without a wrong case": (b"test.1.status: pass\ncheck: fail\n", "check: fail, but its cases say otherwise"),
    "a long line": (b"note: " + b"x" * MAX_LINE_BYTES + b"\n", "line 4 is invalid: longer than 64 KiB"),
    "a long line without end": (b"x" * (MAX_LINE_BYTES + 8), "longer than 64 KiB"),
    "too many lines": (b"".join(b"k%d: 1\n" % n for n in range(20_001)), "more than 20000 lines or 4 MiB"),
    "ten thousand cases": (b"".join(b"test.%d.status: pass\n" % n for n in range(1, 10_000)), "'test.2.status' must be"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "message"), REFUSED.values(), ids=REFUSED)
def test_invalid_or_contradictory_lines_are_refused(text, message):
    assert message in refusal(TESTS + text)


def test_a_wrong_or_missing_count_of_cases_is_refused():
    assert "'test-count' must be about the 2 tests" in refusal(b"test-count: 10000\n")
    assert "'benchmark-count' must be" in refusal(b"benchmark-count: 2\n")
    assert "without 'test-count'" in refusal(b"test.0.status: pass\ntest.1.status: pass\ncheck: pass\n")


def test_too_many_bytes_are_refused_whatever_they_say():
    lines = b"".join(b"k%d: %s\n" % (n, b"x" * 60_000) for n in range(MAX_BYTES // 60_000 + 1))
    assert "4 MiB" in refusal(lines)


@pytest.mark.parametrize(
    "value",
    ["nan", "NaN", "inf", "-inf", "Infinity", "-1", "0", "1e400", "1e15", "", "1_000", "0x10", "1,5", "٣", "1 ns"],
)
def test_times_that_are_not_positive_numbers_are_refused(value):
    text = BENCHMARKS.replace(b"2000.5", value.encode())
    assert "'benchmark.0.mean' must be nanoseconds" in refusal(text, CaseKind.BENCHMARK, 1)


@pytest.mark.parametrize("value", [b"0", b"-3", b"1.5", b"9" * 5000, b"inf"])
def test_an_invalid_count_of_calls_is_refused(value):
    text = BENCHMARKS.replace(b"runs: 10", b"runs: " + value)
    assert "'benchmark.0.runs' must be a count of calls" in refusal(text, CaseKind.BENCHMARK, 1)


CONTRADICTIONS = {
    "a mean below the best": (b"2000.5", b"1999", "not between its best and its worst"),
    "a mean above the worst": (b"2000.5", b"3001", "not between its best and its worst"),
    "a missing time": (b"benchmark.0.err: 0\n", b"", "benchmark 0 has no err"),
    "no times at all": (TIMES, b"benchmark.0.status: pass\n", "benchmark 0 has no runs, mean, std, err, best, worst"),
    "times of what failed": (b"benchmark-count", b"benchmark.0.status: fail\nbenchmark-count", "failed, but has times"),
    "more time than there was": (b"runs: 10", b"runs: 1000000", "its calls took 2 s, but it ran for 1 s"),
}  # fmt: skip


@pytest.mark.parametrize(("old", "new", "message"), CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_benchmarks_that_contradict_themselves_or_the_clock_are_refused(old, new, message):
    assert old in BENCHMARKS
    assert message in refusal(BENCHMARKS.replace(old, new) + b"check: pass\n", CaseKind.BENCHMARK, 1)


def test_a_failure_that_names_no_case_is_a_wrong_answer():
    with pytest.raises(Foul, match="not for which case") as caught:
        told(TESTS + b"check: fail\n")
    assert caught.value.verdict is Verdict.WRONG_ANSWER


def test_the_program_gets_mode_and_cases_in_kernelbots_format():
    assert [mode_argument(mode, CaseKind.BENCHMARK) for mode in (Mode.BENCHMARK, Mode.RANKED)] == [
        "benchmark",
        "leaderboard",
    ]
    assert mode_argument(Mode.RANKED, CaseKind.TEST) == "test"
    assert case_line({"size": 3, "shape": (4, 8), "kind": "even"}) == "size: 3; shape: [4, 8]; kind: even"


# Whole judgings.


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Task]:
    out = tmp_path_factory.mktemp("tasks")
    assert run(["task", "import", str(SET), "--out", str(out)]) == 0
    return {name: load_task(out / name) for name in ("rowsum", "rowsum_cu", "allsum")}


def judged(task: Task, source: str, mode: Mode = Mode.TEST, **options) -> Judgement:
    submission = Submission(login="sample", source=source.encode(), name=task.submission_name)
    judgement = judge(task.board("CPU"), submission, mode, **options)
    assert Judgement.from_json(judgement.to_json()).model_copy(update={"checksum": ""}) == judgement
    return judgement


@pytest.mark.walls
@pytest.mark.parametrize("name", ["rowsum", "rowsum_cu"])
def test_every_example_gets_the_verdict_of_its_folder(name, tasks, capsys):
    assert run(["task", "check", str(tasks[name].folder), "--json"]) == 0, capsys.readouterr().out
    got = {one["got"] for one in json.loads(capsys.readouterr().out)["examples"]}
    assert got >= {"AC", "WA", "RTE", "CE", "TLE", "SV"}


@pytest.mark.walls
@pytest.mark.parametrize("name", ["rowsum", "rowsum_cu"])
def test_a_ranked_judging_runs_six_processes_each_with_its_own_seed(name, tasks):
    task = tasks[name]
    judgement = judged(task, task.examples[0].path.read_text(), Mode.RANKED)
    assert (judgement.verdict, judgement.claim, judgement.is_rankable) == ("AC", "self-timed", True), judgement.message
    assert len(judgement.benchmarks) == len(task.benchmarks)
    for case in judgement.benchmarks:
        assert case.told and not case.timing and not case.told.note
        assert len(case.told.runs) == len({run.seed for run in case.told.runs}) == MIN_PAIRS
        assert {run.calls for run in case.told.runs} == {20}
    assert {case.seed is not None for case in judgement.tests} == {True}


@pytest.mark.walls
def test_a_program_that_ends_while_the_judge_is_delayed_does_not_fail(tasks, monkeypatch):
    """Under load, program and keeper may end between two polls of the judge."""

    def is_gone_by_now(player: PlayerHandle) -> bool:
        deadline = time.monotonic() + 5
        while not freezer.has_ended(player._keeper) and time.monotonic() < deadline:
            time.sleep(0.001)
        return freezer.has_ended(player._keeper)

    monkeypatch.setattr(PlayerHandle, "is_gone", property(is_gone_by_now))
    task = tasks["rowsum_cu"]
    judgement = judged(task, task.examples[0].path.read_text())
    assert judgement.verdict == "AC", judgement.message


@pytest.mark.alone
@pytest.mark.walls
def test_an_honest_program_does_not_exceed_its_limit_because_of_other_programs(tasks, all_cores):
    """It computes for 2 s of its limit of 3 s, on a core of which it gets a third."""
    source = """\
import time
def row_sums(rows):
    while time.process_time() < 2:
        pass
    return [sum(row) for row in rows]
"""
    with busy_loops(2, max(all_cores)):
        judgement = judged(tasks["rowsum"], source)
    assert judgement.verdict == "AC", judgement.message
    assert judgement.tests[0].seconds > 3, "the loops took no time"


@pytest.mark.walls
def test_the_program_starts_several_ranks_and_they_are_judged_as_one(tasks):
    """With gloo, on CPU cores: the number of GPUs depends on the device."""
    task = tasks["allsum"]
    assert (task.multi_gpu, task.board("CPU").world_size) == (True, 3)
    for example in task.examples:
        judgement = judged(task, example.path.read_text())
        assert (judgement.verdict, judgement.claim) == (example.verdict, "self-timed"), judgement.message
    assert {example.verdict.value for example in task.examples} == {"AC", "WA", "RTE"}


@pytest.mark.walls
@pytest.mark.parametrize(
    ("returns", "verdict", "message"),
    [
        ("x.float()", "WA", "rank 1: custom_kernel returned torch.float32 of shape (1, 1) on cpu, not torch.bf"),
        ("x.as_subclass(Late)", "WA", "rank 1: custom_kernel returned Late, not a torch.Tensor"),
        ("x * float('nan')", "WA", "rank 1: 3 of 3 sums are wrong; element [0, 0] of call 0 is nan, expected"),
        ("os.kill(os.getpid(), 9)", "RTE", "rank 1 ended with exit code -9"),
    ],
)
def test_allreduce_says_what_is_wrong_with_one_rank(returns, verdict, message):
    source = f"""\
import os
import torch
import torch.distributed as dist

class Late(torch.Tensor):
    pass

def custom_kernel(data):
    x, rank, _ = data
    dist.all_reduce(x)
    return {returns} if rank else x
"""
    judgement = judged(load_task(SHIPPED / "allreduce"), source)
    assert (judgement.verdict, judgement.claim) == (verdict, "self-timed")
    assert message in judgement.message and "rank 0" not in judgement.message


@pytest.mark.parametrize("count", [0, 65, "2", True])
def test_an_invalid_number_of_gpus_in_a_case_is_refused(tmp_path, count):
    assert run(["task", "import", str(SET), "--out", str(tmp_path)]) == 0
    folder = tmp_path / "allsum"
    text = (folder / "task.yml").read_text()
    (folder / "task.yml").write_text(text.replace("world_size: 2", f"world_size: {json.dumps(count)}"))
    with pytest.raises(TaskError, match="world_size: must be the number of GPUs, from 1 to 64"):
        load_task(folder)


@pytest.mark.walls
def test_a_failed_compilation_names_the_lines_at_fault(tasks):
    task = tasks["rowsum_cu"]
    (example,) = (one for one in task.examples if one.path.stem == "two_mistakes")
    message = judged(task, example.path.read_text()).message
    assert [line.partition(" ")[0] for line in message.splitlines()] == ["submission.cu:5:", "submission.cu:6:"]


@pytest.mark.walls
def test_an_unexecutable_program_is_the_submissions_fault(tasks):
    """Its file begins like any program, but its interpreter's name is too long for the kernel."""
    task = tasks["rowsum_cu"]
    interpreter = '__asm__(".pushsection .interp,\\"a\\"\\n.fill 5000,1,65\\n.byte 0\\n.popsection");\n'
    judgement = judged(task, interpreter + task.examples[0].path.read_text())
    assert judgement.verdict == "RTE", judgement.message
    assert "built from the submission cannot be executed: [Errno 8]" in judgement.message


FORGER = """\
import os, sys
if len(sys.argv) == 3:
    kind = "test" if sys.argv[1] == "test" else "benchmark"
    lines = ["%s-count: 2" % kind]
    for case in range(2):
        if kind == "test":
            lines.append("test.%d.status: pass" % case)
        else:
            lines += ["benchmark.%d.%s: 1" % (case, key) for key in ("runs", "mean", "std", "err", "best", "worst")]
    with os.fdopen(int(os.environ["POPCORN_FD"]), "w") as pen:
        pen.write("\\n".join([*lines, "check: pass", ""]))
    os._exit(0)
"""


@pytest.mark.walls
def test_a_consistent_forger_is_accepted_with_the_claim_self_timed(tasks, capsys):
    """This evaluator cannot prevent the attack, hence the weaker claim."""
    judgement = judged(tasks["rowsum"], FORGER, Mode.RANKED)
    assert (judgement.verdict, judgement.claim) == (Verdict.ACCEPTED, Claim.SELF_TIMED)
    assert judgement.benchmarks[0].time_us == pytest.approx(0.001)


LOOKS_AROUND = f"""\
import os, socket
def row_sums(rows):
    assert "task.yml" not in os.listdir("."), os.listdir(".")
    assert not os.path.exists({__file__!r}) and not os.path.exists("/etc/passwd")
    for path in ("eval.py", "/usr/here", "/cache/../here"):
        try:
            open(path, "w")
        except OSError:
            continue
        raise SystemExit("wrote " + path)
    try:
        socket.socket(socket.AF_INET)
    except OSError:
        return [sum(row) for row in rows]
"""


@pytest.mark.walls
def test_the_sandbox_contains_a_program_like_a_player(tasks):
    judgement = judged(tasks["rowsum"], LOOKS_AROUND)
    assert judgement.verdict is Verdict.ACCEPTED, (judgement.message, judgement.log)


@pytest.mark.walls
def test_a_submission_must_not_report_during_the_build(tasks):
    source = "import os\nif __name__ == '__main__':\n    os.write(901, b'check: pass')\n"
    judgement = judged(tasks["rowsum"], source)
    assert judgement.verdict is Verdict.SECURITY_VIOLATION
    assert "was written during the build" in judgement.message


@pytest.mark.walls
def test_the_program_sees_the_builds_cache_and_cannot_change_it(tasks):
    source = """\
import os
if __name__ == "__main__":
    open("/cache/built", "w").write("once")
else:
    assert open("/cache/built").read() == "once"
    open("/cache/built", "w").write("changed")
def row_sums(rows):
    return [sum(row) for row in rows]
"""
    judgement = judged(tasks["rowsum"], source, Mode.BENCHMARK)
    assert judgement.verdict is Verdict.ACCEPTED, judgement.message


@pytest.mark.walls
def test_the_children_of_a_program_end_with_it(tasks):
    source = """\
import os, time
def row_sums(rows):
    if os.fork() == 0:
        os.setsid()
        time.sleep(3600)
    return [sum(row) for row in rows]
"""
    assert judged(tasks["rowsum"], source).verdict is Verdict.ACCEPTED


@pytest.mark.walls
def test_a_submission_may_use_torch(tasks):
    source = "import torch\ndef row_sums(rows):\n    return torch.tensor(rows).sum(dim=1).tolist()\n"
    task = tasks["rowsum"]
    patient = replace(task.limits, test_timeout_s=120)  # its import is slow while other judges run
    assert judged(replace(task, limits=patient), source).verdict is Verdict.ACCEPTED


def test_a_judging_without_a_sandbox_never_ranks(tasks):
    task = tasks["rowsum"]
    judgement = judged(task, task.examples[0].path.read_text(), Mode.RANKED, sandbox="none")
    assert (judgement.verdict, judgement.claim, judgement.is_rankable) == ("AC", "self-timed", False)


@pytest.mark.walls
def test_the_terminal_marks_benchmarks_as_self_timed(tasks, capsys):
    task = tasks["rowsum"]
    file = str(task.examples[0].path)
    assert run(["benchmark", file, "--task-dir", str(task.folder)]) == 0
    said = capsys.readouterr().out
    assert "Benchmarks, self-timed" in said
    assert "could forge verdict and times" in said


def test_a_task_timed_by_its_own_program_has_no_duels(tasks):
    file = read_submission(tasks["rowsum"].examples[0].path)
    with pytest.raises(TaskError, match="does not support duels"):
        duel(tasks["rowsum"].board("CPU"), file, file)
