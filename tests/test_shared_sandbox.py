"""Judgings that share a sandbox, as in `pullrank demo`: one warm parent for all with the same needs."""

import contextlib
import contextvars
import os
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest

from harness.judge import judge
from harness.processes import freezer
from harness.processes.other_work import cpu_ns_of
from harness.records.errors import JudgeError
from harness.records.fields import Mode
from harness.records.verdict import Verdict
from harness.shared_sandbox import share_sandbox
from harness.task.submission import Submission
from harness.task.task import load_task

TINY = Path(__file__).parent / "tasks" / "tiny"
pytestmark = pytest.mark.walls

GOOD = "def custom_kernel(data):\n    return data + 1\n"
LOOKS_FOR_A_MARK = "import os\nprint(os.path.exists('/cache/mark'))\n" + GOOD
LEAVES_A_MARK = (
    """
try:
    open("/cache/mark", "w").close()
except OSError:
    pass  # after the build
"""
    + LOOKS_FOR_A_MARK
)


@pytest.fixture(scope="module")
def board():
    return load_task(TINY).board("CPU")


def judged(board, source, mode=Mode.TEST):
    return judge(board, Submission(login="sample", source=source.encode(), name="submission.py"), mode)


def processes():
    return {pid for pid in freezer.descendants(os.getpid()) if not freezer.has_ended(pid)}


def test_judgings_that_need_the_same_share_a_sandbox(board, shared_sandbox):
    shared_sandbox.close()
    before, cores = processes(), os.sched_getaffinity(0)
    assert judged(board, GOOD).verdict is Verdict.ACCEPTED
    first = processes() - before
    assert judged(board, GOOD.replace("1", "2")).verdict is Verdict.WRONG_ANSWER
    assert first and first == processes() - before
    assert os.sched_getaffinity(0) == cores


@pytest.mark.usefixtures("shared_sandbox")
def test_the_next_submission_finds_nothing_of_the_one_before(board):
    assert judged(board, LEAVES_A_MARK).log == "True\n"
    first = processes()
    assert judged(board, LOOKS_FOR_A_MARK).log == "False\n"
    assert first == processes()


@pytest.mark.usefixtures("shared_sandbox")
def test_a_block_in_a_block_uses_the_same_sandbox(board):
    judged(board, GOOD)
    first = processes()
    with share_sandbox():
        judged(board, GOOD)
    assert first == processes()


def test_after_a_judging_error_the_next_judging_gets_a_new_sandbox(board, shared_sandbox):
    shared_sandbox.close()
    before = processes()
    judged(board, GOOD)
    killed = processes() - before
    for process in killed:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    freezer.await_end(killed)
    with pytest.raises(JudgeError, match="warm parent"):
        judged(board, GOOD)
    assert processes() == before
    assert judged(board, GOOD).verdict is Verdict.ACCEPTED


def test_a_judging_that_needs_more_gets_a_new_sandbox_which_ends_with_the_block(board):
    def judge_both():
        before = processes()
        with share_sandbox():
            judged(board, GOOD)
            first = processes() - before
            larger = replace(board, limits=replace(board.limits, memory_gib=board.limits.memory_gib * 2))
            assert judged(larger, GOOD).verdict is Verdict.ACCEPTED
            assert first and not first & processes()
        assert processes() == before

    contextvars.Context().run(judge_both)  # outside of all other blocks


def test_nothing_of_a_shared_sandbox_spins_between_two_judgings(board, all_cores, shared_sandbox):
    if len(all_cores) == 1:
        pytest.skip("players share the referee's core")
    shared_sandbox.close()
    before = processes()
    judged(board, GOOD, Mode.BENCHMARK)
    kept = processes() - before
    assert kept
    used = sum(cpu_ns_of([pid])[0] for pid in kept)
    time.sleep(0.2)
    assert sum(cpu_ns_of([pid])[0] for pid in kept) - used < 5e6
    assert judged(board, GOOD, Mode.BENCHMARK).verdict is Verdict.ACCEPTED
