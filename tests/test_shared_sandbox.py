"""Judgings that share a sandbox, as in `pullrank demo`: one warm parent for all that need the same."""

import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from harness.judge import judge
from harness.records.errors import JudgeError
from harness.records.fields import Mode
from harness.records.verdict import Verdict
from harness.sandbox import freezer
from harness.shared_sandbox import SharedSandbox, share_sandbox
from harness.task.submission import Submission
from harness.task.task import load_task

TINY = Path(__file__).parent / "tasks" / "tiny"
pytestmark = pytest.mark.walls

GOOD = "def custom_kernel(data):\n    return data + 1\n"
LEAVES_A_MARK = "import os\nopen(os.environ['TMPDIR'] + '/mark', 'w').close()\n" + GOOD
LOOKS_FOR_IT = "import os\nprint(os.path.exists(os.environ['TMPDIR'] + '/mark'))\n" + GOOD


@pytest.fixture(scope="module")
def board():
    return load_task(TINY).board("CPU")


@pytest.fixture(scope="module")
def shared():
    """One for these tests: what they start takes seconds."""
    shared = SharedSandbox()
    yield shared
    shared.close()


def judged(board, source):
    return judge(board, Submission(login="sample", source=source.encode(), name="submission.py"), Mode.TEST)


def processes():
    return {pid for pid in freezer.descendants(os.getpid()) if not freezer.has_ended(pid)}


def test_judgings_that_need_the_same_share_a_sandbox(board, shared):
    shared.close()
    before, cores = processes(), os.sched_getaffinity(0)
    with share_sandbox(shared):
        assert judged(board, GOOD).verdict is Verdict.ACCEPTED
        first = processes() - before
        assert judged(board, GOOD.replace("1", "2")).verdict is Verdict.WRONG_ANSWER
        assert first and first == processes() - before
        assert os.sched_getaffinity(0) == cores


def test_the_next_submission_finds_nothing_of_the_one_before(board, shared):
    with share_sandbox(shared):
        assert judged(board, LEAVES_A_MARK).verdict is Verdict.ACCEPTED
        assert judged(board, LOOKS_FOR_IT).log == "False\n"


def test_after_a_judging_error_the_next_judging_gets_a_new_sandbox(board, shared):
    with share_sandbox(shared):
        judged(board, GOOD)
        for process in processes():
            os.kill(process, signal.SIGKILL)
        with pytest.raises(JudgeError, match="warm parent"):
            judged(board, GOOD)
        assert not processes()
        assert judged(board, GOOD).verdict is Verdict.ACCEPTED


def test_a_judging_that_needs_more_gets_a_sandbox_of_its_own_which_ends_with_the_block(board, shared):
    shared.close()
    before = processes()
    with share_sandbox():
        judged(board, GOOD)
        first = processes() - before
        larger = replace(board, limits=replace(board.limits, memory_gib=board.limits.memory_gib * 2))
        assert judged(larger, GOOD).verdict is Verdict.ACCEPTED
        assert first and not first & processes()
    assert processes() == before
