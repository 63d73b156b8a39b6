"""A task's own examples in one sandbox: their verdicts, what is played only once, and what is skipped."""

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.judge import JudgeSession
from harness.records.errors import JudgeError
from harness.records.fields import Mode
from harness.records.verdict import Verdict
from harness.reference.reference import Reference
from harness.sandbox.sandbox import Sandbox
from harness.task.submission import Submission
from harness.task.task import Board, load_task
from harness.task_check.judge_examples import ExampleOutcome, judge_examples
from harness.task_check.needs import why_skipped

TINY = Path(__file__).parent / "tasks" / "tiny"

GOOD = "import torch\ndef custom_kernel(data):\n    return data + 1\n"


def board_with(folder: Path, **examples: str) -> Board:
    """tests/tasks/tiny with more examples; `accepted__quick` becomes examples/accepted/quick.py."""
    shutil.copytree(TINY, folder / "tiny", ignore=shutil.ignore_patterns("__pycache__"))
    for name, source in examples.items():
        path = (folder / "tiny" / "examples" / name.replace("__", "/")).with_suffix(".py")
        path.parent.mkdir(exist_ok=True)
        path.write_text(source)
    return load_task(folder / "tiny").board("CPU")


def submission(source: str) -> Submission:
    return Submission(login="sample", source=source.encode())


def named(judged: list[ExampleOutcome]) -> dict[str, ExampleOutcome]:
    return {one.example.path.name: one for one in judged}


CRASH = "import os\ndef custom_kernel(data):\n    os._exit(3)\n"
LATE = "def custom_kernel(data):\n    return data + (data.numel() < 1000)\n"
"""Right in the tests, wrong in the benchmark."""


@dataclass(frozen=True)
class Seen:
    """Some judged examples: their verdicts, the number of sandboxes, and the cases that the reference tried."""

    board: Board
    done: dict[str, ExampleOutcome]
    warm_parents: int
    tried: list[str]


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    opened, tried = [], []
    start, probe = Sandbox._start, Reference.probe
    board = board_with(
        tmp_path_factory.mktemp("judged"), accepted__quick=GOOD, run_time_error__crash=CRASH, wrong_answer__late=LATE
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Sandbox, "_start", lambda self: (opened.append(self._warm), start(self))[1])
        patch.setattr(Reference, "probe", lambda self, params: (tried.append(str(params)), probe(self, params))[1])
        done = named(list(judge_examples(board)))
    return Seen(board, done, opened.count(True), tried)


@pytest.mark.walls
def test_the_sandbox_starts_once_and_times_the_anchor_beside_another_example(seen):
    assert {name: one.got for name, one in seen.done.items()} == {
        "quick.py": Verdict.ACCEPTED,
        "identity.py": Verdict.WRONG_ANSWER,
        "late.py": Verdict.WRONG_ANSWER,
        "crash.py": Verdict.RUN_TIME_ERROR,
        "plain.py": Verdict.ACCEPTED,
    }
    assert list(seen.done)[-1] == "plain.py"
    assert seen.warm_parents == 1
    timing = seen.done["quick.py"].judgement.benchmarks[0].timing
    assert len(timing.submission) == len(timing.anchor) == 2, "examples are not ranked"
    assert seen.done["plain.py"].judgement.mode is Mode.TEST


@pytest.mark.walls
def test_examples_run_benchmarks_only_if_tests_do_not_decide(seen):
    modes = {name: seen.done[name].judgement.mode for name in ("late.py", "identity.py")}
    assert modes == {"late.py": Mode.BENCHMARK, "identity.py": Mode.TEST}


@pytest.mark.walls
def test_examples_play_no_test_after_one_that_fails(seen):
    assert len(seen.board.tests) > 1
    assert {len(seen.done[name].judgement.tests) for name in ("identity.py", "crash.py")} == {1}
    assert len(seen.done["late.py"].judgement.tests) == len(seen.board.tests)


@pytest.mark.walls
def test_the_reference_tries_each_case_once_for_all_examples(seen):
    assert len(seen.tried) == len(set(seen.tried)) == len(seen.board.tests) + len(seen.board.benchmarks)


@pytest.mark.walls
def test_the_anchor_is_timed_itself_if_no_other_example_is_accepted(tmp_path):
    done = named(
        list(judge_examples(board_with(tmp_path, accepted__wrong="def custom_kernel(data):\n    return data\n")))
    )
    assert done["wrong.py"].got is Verdict.WRONG_ANSWER
    assert done["plain.py"].judgement.benchmarks[0].timing


PROGRAM = """\
import os, sys
import submission
kind = "test" if sys.argv[1] == "test" else "benchmark"
told = ["status: pass"] if kind == "test" else ["runs: 9", *(f"{key}: 5" for key in ("mean", "best", "worst")), "std: 0", "err: 0"]
with os.fdopen(int(os.environ["POPCORN_FD"]), "w") as pen:
    pen.write("\\n".join([f"{kind}-count: 1", *(f"{kind}.0.{line}" for line in told), "check: pass", ""]))
"""
SCRIPT = """\
evaluator: script
config: {main: eval.py}
files: [{name: submission.py, source: "@SUBMISSION@"}, {name: eval.py, source: eval.py}]
anchor: examples/accepted/plain.py
tests: [{size: 1}]
benchmarks: [{size: 1}]
"""  # fmt: skip


@pytest.mark.walls
def test_a_tasks_own_program_times_the_anchor_like_any_other_example(tmp_path):
    folder = tmp_path / "own"
    for name in ("task.yml", "eval.py", "examples/accepted/plain.py", "examples/accepted/other.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(
            {"task.yml": SCRIPT, "eval.py": PROGRAM}.get(name, GOOD.replace("import torch\n", ""))
        )
    done = named(list(judge_examples(load_task(folder).board("CPU"))))
    assert {name: one.got for name, one in done.items()} == {"plain.py": Verdict.ACCEPTED, "other.py": Verdict.ACCEPTED}
    assert done["plain.py"].judgement.benchmarks[0].told


@pytest.fixture(scope="module")
def session():
    with JudgeSession(load_task(TINY).board("CPU")) as made:
        yield made


@pytest.mark.walls
def test_a_submission_cannot_see_another_submissions_cache(session):
    leave = "open('/cache/left', 'w').close()\n" + GOOD
    seek = "import os\nassert not os.path.exists('/cache/left')\n" + GOOD
    assert session.judge(submission(leave), Mode.TEST).verdict is Verdict.ACCEPTED
    judgement = session.judge(submission(seek), Mode.TEST)
    assert judgement.verdict is Verdict.ACCEPTED, judgement.message


@pytest.mark.walls
def test_a_judging_error_gives_the_next_submission_a_new_sandbox(session, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(Sandbox, "require_health", lambda _: (_ for _ in ()).throw(JudgeError("something is left")))
        with pytest.raises(JudgeError, match="something is left"):
            session.judge(submission(GOOD), Mode.TEST)
    assert session.judge(submission(GOOD), Mode.TEST).verdict is Verdict.ACCEPTED


def test_an_example_with_missing_packages_is_skipped(tmp_path):
    needy = "#!PULLRANK needs no_such_package torch\n" + GOOD
    done = named(list(judge_examples(board_with(tmp_path, accepted__wants=needy), sandbox="none")))
    assert (done["wants.py"].got, done["wants.py"].message) == (
        None,
        "needs no_such_package: not installed on this machine",
    )
    assert done["plain.py"].judgement.benchmarks[0].timing


def test_examples_find_packages_and_programs_where_players_do(tmp_path, monkeypatch):
    (tmp_path / "only_here.py").write_text("")
    (tmp_path / "program").write_text("#!/bin/sh\n")
    (tmp_path / "program").chmod(0o755)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    asked = submission("#!PULLRANK needs torch numpy sh only_here program c++~\n" + GOOD)
    assert why_skipped(asked) == ""  # the judge reports an unreadable directive
    asked = submission("#!PULLRANK needs torch numpy sh only_here program\n" + GOOD)
    assert why_skipped(asked) == "needs only_here and program: not installed on this machine"
    assert why_skipped(submission(GOOD)) == ""


SAME_AGE = """\
import os
def custom_kernel(data):
    assert os.stat("submission.py").st_mtime == 0
    assert os.environ["TRITON_INTERPRET"] == "1"
    return data + 1
"""


@pytest.mark.walls
def test_a_player_sees_a_fixed_file_date_and_the_triton_interpreter(session):
    judgement = session.judge(submission(SAME_AGE), Mode.TEST)
    assert judgement.verdict is Verdict.ACCEPTED, judgement.message
