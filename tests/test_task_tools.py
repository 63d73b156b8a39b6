"""The organisers' commands for tasks: make one, show it, list what a change resets, archive it."""

import json
import os
import pty
import re
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from harness.gpu.gpu_nodes import find_gpus
from harness.records.times import Run, Timing
from harness.task.task import METHOD, Task, load_task, task_schema
from scripts.cli import run
from scripts.ledger.ledger import Ledger
from scripts.tasks.archive import with_deadline
from scripts.tasks.check_board import _too_short
from scripts.tasks.diff import Effect, find_changes
from scripts.tasks.writing import SCHEMA, SCHEMA_LINE, schema_text

pytestmark = pytest.mark.usefixtures("shared_sandbox")
ROOT = Path(__file__).parent.parent
TINY = ROOT / "tests" / "tasks" / "tiny"
NOW = datetime(2026, 11, 21, 17, 0, tzinfo=UTC)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A folder with two tasks."""
    for name in ("tiny", "small"):
        shutil.copytree(TINY, tmp_path / "tasks" / name, ignore=shutil.ignore_patterns("__pycache__"))
        for path in (tmp_path / "tasks" / name).rglob("*.py"):
            path.write_text(path.read_text().replace("leaderboard tiny", f"leaderboard {name}"))
    return tmp_path / "tasks"


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


# New.


def made(tasks: Path, *arguments: str) -> Task:
    assert run(["task", "new", "square", *arguments, "--tasks", str(tasks)]) == 0
    return load_task(tasks / "square")


def test_a_new_task_is_complete_and_the_command_names_the_next_step(tmp_path, capsys):
    task = made(tmp_path, "--title", "Squares", "--about", "Square {every} number.", "--gpu", "CPU", "--gpu", "H100")
    assert (task.title, task.gpus) == ("Squares", ("CPU", "H100"))
    assert task.description.startswith("Square {every} number.\n\n`custom_kernel` gets")
    assert [board.benchmarks[0].params["size"] for board in task.boards] == [2097152, 67108864]
    assert [one.path.name for one in task.examples] == ["three_passes.py", "in_half_precision.py"]
    said = capsys.readouterr().out
    assert "task.yml" in said and "pullrank task check" in said


def test_a_new_task_needs_no_more_than_a_name(tmp_path):
    task = made(tmp_path)
    assert (task.title, task.gpus) == ("Square", ("CPU",))
    assert (tmp_path / "square" / "task.yml").read_text().startswith(SCHEMA_LINE)
    assert (tmp_path / SCHEMA).read_text() == schema_text()


@pytest.mark.parametrize("gpus", [("CPU",), ("H100",), ("CPU", "H100", "B200")])
def test_every_choice_of_boards_gives_a_task_that_loads(gpus, tmp_path):
    flags = [word for gpu in gpus for word in ("--gpu", gpu)]
    assert made(tmp_path, *flags).gpus == gpus


@pytest.mark.parametrize(("gpus", "language"), [(("CPU",), "C++"), (("H100", "B200"), "CUDA")])
def test_a_new_task_may_take_compiled_submissions(gpus, language, tmp_path, capsys):
    task = made(tmp_path, "--lang", "cu", *(word for gpu in gpus for word in ("--gpu", gpu)))
    assert task.is_compiled and task.gpus == gpus
    assert [one.path.name for one in task.examples] == ["plain.cu", "forgets_the_tail.cu"]
    capsys.readouterr()
    assert run(["task", "template", "square", "--language", language, "--tasks", str(tmp_path)]) == 0
    template = capsys.readouterr().out
    assert template.startswith("//!POPCORN leaderboard square\n")
    assert ("__global__" in template) == (language == "CUDA")


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        pytest.param(
            ("--lang", "cu"), marks=pytest.mark.skipif(not shutil.which("g++"), reason="g++ is not on this machine")
        ),
    ],
)
def test_a_new_task_passes_the_check_as_it_is(arguments, tmp_path, capsys):
    made(tmp_path, *arguments)
    capsys.readouterr()
    assert run(["task", "check", str(tmp_path / "square"), "--sandbox", "none", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [(one["got"], one["expected"]) for one in report["examples"]] == [("AC", "AC"), ("WA", "WA")]
    assert [one for one in report["remarks"] if one["is_fault"]] == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["Square"], "'Square' is not a task name"),
        (["../up"], "is not a task name"),
        (["hacks"], "'hacks' is not a task name: the site has a folder of this name"),
        (["tiny"], "exists already"),
        (["ok", "--gpu", "cpu"], "ok/task.yml:16: gpus[0]: unknown GPU 'cpu'; did you mean 'CPU'?"),
        (["ok", "--gpu", "CPU", "--gpu", "CPU"], "'CPU' appears twice"),
        (["ok", "--about", "a\x07b"], "control character"),
        (["ok", "--lang", "cu", "--gpu", "CPU", "--gpu", "H100"], "tasks/causalconv1d is a task for both"),
    ],
)
def test_a_task_that_cannot_be_created_leaves_no_files(arguments, message, tree, capsys):
    before = sorted(tree.rglob("*"))
    assert run(["task", "new", *arguments, "--tasks", str(tree)]) == 2
    assert message in capsys.readouterr().err
    assert sorted(tree.rglob("*")) == before


@pytest.mark.parametrize(
    ("given", "deadline"),
    [
        ("2100-12-31", datetime(2100, 12, 31, tzinfo=UTC)),
        ("2100-12-31 18:30", datetime(2100, 12, 31, 18, 30, tzinfo=UTC)),
        ("2100-12-31T18:30:00+02:00", datetime(2100, 12, 31, 16, 30, tzinfo=UTC)),
        ("2100-12-31T18:30:00Z", datetime(2100, 12, 31, 18, 30, tzinfo=UTC)),
    ],
)
def test_a_new_task_may_have_a_deadline(given, deadline, tmp_path, capsys):
    assert run(["task", "new", "softsign", "--tasks", str(tmp_path), "--deadline", given]) == 0
    assert load_task(tmp_path / "softsign").deadline == deadline
    assert f"open until {deadline:%Y-%m-%d %H:%M} UTC" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "message"), [("2020-01-01", "is in the past"), ("tomorrow", "does not match the formats")]
)
def test_a_new_tasks_deadline_is_a_time_to_come(given, message, tmp_path, capsys):
    assert run(["task", "new", "softsign", "--tasks", str(tmp_path), "--deadline", given]) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_task_new_asks_for_missing_options_on_a_terminal(tmp_path):
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "scripts.cli", "task", "new", "square", "--about", "Square.", "--tasks", tmp_path]
    with subprocess.Popen(command, cwd=ROOT, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        os.write(ours, b"All squares\nCPU, H100\n")
        assert process.wait(60) == 0
    os.close(ours)
    task = load_task(tmp_path / "square")
    assert (task.title, task.gpus) == ("All squares", ("CPU", "H100"))
    assert task.description.startswith("Square.\n")


# Check.


def test_the_static_check_runs_no_code(tree, capsys):
    (tree / "tiny" / "reference.py").write_text("raise SystemExit('was run')\n")
    assert run(["task", "check", "--static", str(tree / "tiny"), str(tree / "small")]) == 0
    assert "2 tasks read, nothing run; no faults, no warnings." in capsys.readouterr().out


def test_the_check_warns_of_cases_that_exceed_the_boards_memory(tree, capsys):
    edit(tree / "tiny" / "task.yml", "case_timeout: 3", "work: {bytes: size * 2 ** 24}")
    assert run(["task", "check", "--static", str(tree / "tiny")]) == 0
    said = capsys.readouterr().out
    assert "warning  tiny: CPU, size: 100, seed: 12: moves 1.56 GiB according to work.bytes; memory_gib is 1" in said


def test_a_board_without_a_machine_whose_name_is_no_gpus_is_a_warning(tree, capsys):
    edit(tree / "tiny" / "task.yml", "gpus: [CPU]", "gpus: [CPU, H100, h200, H10O, mine]")
    assert run(["task", "check", "--static", str(tree / "tiny")]) == 0
    assert "no warnings" in capsys.readouterr().out, "there are no settings"
    (tree.parent / ".github").mkdir()
    (tree.parent / ".github" / "pullrank.yml").write_text("gpus: {CPU: {runs_on: a}, H200: {runs_on: b}}\n")
    assert run(["task", "check", "--static", str(tree / "tiny")]) == 0
    said = capsys.readouterr().out
    no_machine = "warning  tiny: gpus: .github/pullrank.yml has no machine for"
    assert f"{no_machine} 'H10O'; did you mean 'H100'?" in said and f"{no_machine} 'h200'; did you mean 'H200'?" in said
    assert f"{no_machine} 'mine'; `pullrank gpus` lists those that it knows" in said and "3 warnings" in said


def test_an_example_for_another_task_is_a_warning(tree, capsys):
    example = next((tree / "tiny" / "examples" / "accepted").iterdir())
    edit(example, "leaderboard tiny", "leaderboard small")
    assert run(["task", "check", "--static", str(tree / "tiny"), str(tree / "small")]) == 0
    said = capsys.readouterr().out
    message = "its directive names the task 'small'; write 'tiny', or leave the directive out"
    assert "no faults, 1 warning." in said and f"warning  tiny: examples/accepted/{example.name}: {message}" in said


def test_what_a_tasks_check_says_cannot_control_the_terminal_and_stays_short(tree, capsys):
    with (tree / "tiny" / "reference.py").open("a") as file:
        file.write("\ndef check_implementation(data, output):\n    return False, '\\x1b[31mno ' * 10_000\n")
    assert run(["task", "check", str(tree / "tiny"), "--sandbox", "none"]) == 2
    said = capsys.readouterr().out
    assert r"rejects the output of ref_kernel itself: \x1b[31mno" in said and "\x1b" not in said and len(said) < 5000


def test_an_all_accepting_check_is_a_fault_and_a_short_benchmark_a_warning(tree, capsys):
    assert run(["task", "check", str(tree / "small"), "--sandbox", "none"]) == 0
    said = capsys.readouterr().out
    assert re.search(r"warning  small: CPU, size: 1000, seed: 13: too short to time well: .* make it \d+ times", said)
    assert "2 of 2 examples got the verdict of their folder; no faults, 1 warning." in said
    edit(
        tree / "tiny" / "reference.py",
        "return compare(output, ref_kernel(data), rtol=1e-6, atol=1e-6)",
        "return True, ''",
    )
    assert run(["task", "check", str(tree / "tiny"), "--sandbox", "none"]) == 1
    said = capsys.readouterr().out
    assert "fault    tiny: all tests: accepts only zeros" in said
    assert "1 of 2 examples got the verdict of their folder" in said


STRAY = "warning  tiny: examples/stray.py: it is not judged: put it into a folder"


def test_an_example_in_no_verdicts_folder_is_reported(tree, capsys):
    shutil.copy(tree / "tiny/examples/accepted/plain.py", tree / "tiny/examples/stray.py")
    run(["task", "check", str(tree / "tiny"), "--static"])
    assert STRAY in capsys.readouterr().out


def test_an_example_in_another_language_than_the_tasks_is_reported(tree, capsys):
    (tree / "tiny/examples/accepted/kernel.cu").write_text("")
    (tree / "tiny/examples/accepted/linked.py").symlink_to("plain.py")
    assert run(["task", "check", str(tree / "tiny"), "--static"]) == 0
    said = capsys.readouterr().out
    why = "it is not judged, because submissions of this task are .py files"
    assert f"warning  tiny: examples/accepted/kernel.cu: {why}" in said and "1 warning." in said


def test_a_benchmark_is_as_long_as_its_fastest_run():
    """Other programs may stall all runs but one."""
    task = load_task(TINY)
    board = task.board("CPU")
    for fastest_us, is_short in ((30.0, True), (3000.0, False)):
        runs = tuple(
            Run(order=order, warmups_us=(), samples_us=(time_us,), seeds=(order,))
            for order, time_us in enumerate((5000.0, fastest_us, 5000.0, 5000.0))
        )
        timing = Timing.of(runs[:2], runs[2:], overhead_us=50.0, bound_us=50.0, steady=True, note="")
        judged = SimpleNamespace(benchmarks=[SimpleNamespace(timing=timing)])
        assert bool(list(_too_short(board, [judged]))) is is_short


def test_a_reference_that_does_not_load_is_reported_once(tree, capsys):
    edit(tree / "tiny" / "reference.py", "import torch\n", "import torch\nimport no_such_package\n")
    assert run(["task", "check", str(tree / "tiny"), "--sandbox", "none"]) == 2
    said = capsys.readouterr().out
    assert said.count("No module named 'no_such_package'") == 1
    assert "1 task read, no example judged; 1 fault, no warnings." in said


def test_a_syntax_error_is_reported_before_anything_runs(tree, capsys):
    (tree / "tiny" / "reference.py").write_text("raise SystemExit('was run')\ndef (:\n")
    assert run(["task", "check", "--static", str(tree / "tiny")]) == 2
    assert "tiny/reference.py:2: not valid Python 3." in capsys.readouterr().err


@pytest.mark.skipif(bool(find_gpus()), reason="this machine has a GPU")
def test_the_check_says_once_that_it_judged_nothing_without_the_boards_gpu(tree, capsys):
    edit(tree / "tiny" / "task.yml", "gpus: [CPU]", "gpus: [H100]")
    assert run(["task", "check", str(tree / "tiny"), "--sandbox", "none"]) == 3
    said = capsys.readouterr().out
    assert said.count("warning  tiny: H100: not judged here: no GPU found on this machine") == 1
    assert "1 task read, no example judged; no faults, 1 warning." in said


def test_skipping_all_accepted_examples_is_a_fault_and_each_says_why(tree, capsys):
    path = tree / "tiny" / "examples" / "accepted" / "plain.py"
    shutil.copy(path, tree / "tiny" / "examples" / "stray.py")
    path.write_text("#!PULLRANK needs no_such_package\n" + path.read_text())
    assert run(["task", "check", str(tree / "tiny"), "--sandbox", "none"]) == 1
    said = capsys.readouterr().out
    assert re.search(r"accepted/plain.py +AC +skipped +0.0 +needs no_such_package: not installed on this machine", said)
    assert "fault    tiny: examples/accepted: all were skipped" in said
    assert "1 of 1 examples got the verdict of their folder; 1 skipped; 1 fault, 1 warning." in said
    assert STRAY in said, "what is found by reading is reported also if examples are judged"


# Look.


def test_task_files_lists_each_file_with_its_role_and_prints_it(tree, capsys):
    assert run(["task", "files", "tiny", "--tasks", str(tree), "--json"]) == 0
    listed = {one["file"]: one["role"] for one in json.loads(capsys.readouterr().out)}
    assert listed["reference.py"] == "the reference; hidden from submissions"
    assert listed["task.py"] == "next to submissions"
    assert listed["examples/accepted/plain.py"] == "example that must get AC, the anchor"
    for name in listed:
        assert run(["task", "files", "tiny", name, "--tasks", str(tree)]) == 0
        assert capsys.readouterr().out == (tree / "tiny" / name).read_text()
    assert run(["task", "files", "tiny", "refrence.py", "--tasks", str(tree)]) == 2
    assert "did you mean 'reference.py'?" in capsys.readouterr().err


def test_a_tasks_own_text_cannot_control_the_terminal(tree, capsys):
    file = tree / "tiny" / "task.yml"
    kept = [line for line in file.read_text().splitlines() if not line.startswith(("title:", "description:"))]
    file.write_text("\n".join(["title: Tiny\u202e", r'description: "Add \e[2J one\u202e."', *kept, ""]))
    assert run(["task", "show", "tiny", "--tasks", str(tree)]) == 0
    said = capsys.readouterr().out
    assert "Tiny\\u202e\nAdd [2J one.\n" in said


def test_eval_code_shows_the_referee_and_the_edition_of_each_board(tree, capsys):
    assert run(["task", "eval-code", "tiny", "--tasks", str(tree)]) == 0
    said = capsys.readouterr().out
    assert "judged by PullRank's referee" in said
    assert load_task(tree / "tiny").board("CPU").edition in said
    for file in re.findall(r"harness/\w+\.py", said):
        assert (ROOT / file).is_file()


def test_eval_code_names_a_tasks_own_evaluator(tree, capsys):
    folder = tree / "tiny"
    shutil.copy(folder / "reference.py", folder / "eval.py")
    files = "files: [{name: submission.py, source: '@SUBMISSION@'}, {name: eval.py, source: eval.py}]"
    edit(folder / "task.yml", "gpus: [CPU]", f"{files}\nevaluator: script\nconfig: {{main: eval.py}}")
    assert run(["task", "eval-code", "tiny", "--tasks", str(tree), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["evaluator"] == "script"
    assert facts["code"][str(folder / "eval.py")] == "the task's own program"
    assert "harness/rules/script.py" in facts["code"]
    assert str(folder / "reference.py") not in facts["code"]


def test_eval_code_names_the_compiler_and_adapter_of_a_compiled_task(capsys):
    assert run(["task", "eval-code", "axpy", "--tasks", str(TINY.parent), "--json"]) == 0
    code = json.loads(capsys.readouterr().out)["code"]
    assert {
        "harness/task/compile.py",
        "harness/referee/referee.py",
        "tests/tasks/axpy/adapter.py",
        "tests/tasks/axpy/reference.py",
    } <= set(code)


def test_eval_code_names_the_program_and_the_headers_of_a_task_with_its_own_compiled_program(tmp_path, capsys):
    source = ROOT / "tests" / "kernelbot" / "own" / "rowsum_cu"
    assert run(["task", "import", str(source), "--out", str(tmp_path), "--gpu", "CPU"]) == 0
    capsys.readouterr()
    assert run(["task", "eval-code", str(tmp_path / "rowsum_cu")]) == 0
    said = capsys.readouterr().out
    assert "judged by the task's own program" in said and "harness/task/compile.py" in said
    for name, what in {"eval.cu": "the task's own program", "task.h": "next to the program"}.items():
        assert re.search(rf"^  {tmp_path / 'rowsum_cu' / name} +{what}$", said, re.MULTILINE)
    assert run(["task", "files", str(tmp_path / "rowsum_cu"), "eval.cu"]) == 0
    assert capsys.readouterr().out == (source / "eval.cu").read_text()


def test_eval_code_names_a_shared_file_at_its_own_path(tree, capsys):
    (tree / "tiny" / "reference.py").rename(tree / "shared.py")
    files = "files: [{name: submission.py, source: '@SUBMISSION@'}, {name: task.py, source: task.py}"
    edit(
        tree / "tiny" / "task.yml",
        "gpus: [CPU]",
        f"gpus: [CPU]\n{files}, {{name: reference.py, source: ../shared.py}}]",
    )
    assert run(["task", "eval-code", "tiny", "--tasks", str(tree), "--json"]) == 0
    code = json.loads(capsys.readouterr().out)["code"]
    assert str(tree / "shared.py") in code and str(tree / "tiny" / "reference.py") not in code


def test_eval_code_reads_each_boards_runner_from_the_settings(tree, tmp_path, monkeypatch, capsys):
    settings = tmp_path / "root" / ".github" / "pullrank.yml"
    settings.parent.mkdir(parents=True)
    settings.write_text("gpus:\n  CPU: {runs_on: ubuntu-24.04}\n  B200: {runs_on: {group: judges, labels: [b200]}}\n")
    monkeypatch.setattr("scripts.tasks.eval_code.ROOT", settings.parent.parent)
    edit(tree / "tiny" / "task.yml", "gpus: [CPU]", "gpus: [CPU, B200, H100]")
    assert run(["task", "eval-code", "tiny", "--tasks", str(tree)]) == 0
    said = capsys.readouterr().out
    assert "CPU: a runner with the label ubuntu-24.04\n" in said
    assert "B200: a runner in the group judges with the labels b200; the device must be B200\n" in said
    assert "No machine yet: H100. Add them to .github/pullrank.yml under `gpus:`.\n" in said
    assert run(["task", "eval-code", "tiny", "--tasks", str(tree), "--json"]) == 0
    boards = {one["gpu"]: one for one in json.loads(capsys.readouterr().out)["boards"]}
    assert boards["B200"]["runs_on"] == {"group": "judges", "labels": ["b200"]}
    assert boards["H100"]["runs_on"] is None
    assert boards["CPU"]["edition"] == load_task(tree / "tiny").board("CPU").edition


# Archive.


def test_an_archived_task_is_closed_and_keeps_every_other_line_and_its_edition(tree, capsys):
    path = tree / "tiny" / "task.yml"
    before, edition = path.read_text().splitlines(), load_task(tree / "tiny").board("CPU").edition
    assert run(["task", "archive", "tiny", "--tasks", str(tree)]) == 0
    task = load_task(tree / "tiny")
    assert not task.is_open(datetime.now(UTC))
    assert task.board("CPU").edition == edition
    after = path.read_text().splitlines()
    assert [line for line in after if not line.startswith("deadline")] == before
    assert "closed at" in capsys.readouterr().out
    assert run(["task", "archive", "tiny", "--tasks", str(tree)]) == 0
    assert "nothing was changed" in capsys.readouterr().out
    assert path.read_text().splitlines() == after


def test_several_tasks_are_closed_at_once_but_not_purged(tree, capsys):
    closed = ["tiny", "small", "tiny"]
    assert run(["task", "archive", *closed, "--purge", "--confirm", "tiny", "--tasks", str(tree)]) == 2
    assert "--purge deletes one task at a time" in capsys.readouterr().err
    assert run(["task", "archive", *closed, "--tasks", str(tree)]) == 0
    assert not any(load_task(tree / name).is_open(datetime.now(UTC)) for name in closed)
    said = capsys.readouterr().out
    assert said.count("Rows and records stay.") == 2 and said.count("takes effect") == 1


LINE = "deadline: 2026-11-21T17:00:00Z\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("title: A\ngpus: [CPU]\ntests: []\n", f"title: A\ngpus: [CPU]\n{LINE}tests: []\n"),
        ("title: A\ntests: []\n", f"title: A\n{LINE}tests: []\n"),
        ("gpus:\n  - CPU\n  - H100\n# cases\ntests: []\n", f"gpus:\n  - CPU\n  - H100\n# cases\n{LINE}tests: []\n"),
        ("# schema\ntests: []\n", f"# schema\n{LINE}tests: []\n"),
        ("tests: []\ngpus: [CPU]", f"tests: []\ngpus: [CPU]\n{LINE}"),
        ("deadline: 2027-01-01T00:00:00Z  # soon\ntests: []\n", f"{LINE}tests: []\n"),
        ("a: 1\ndeadline:\n  2027-01-01T00:00:00Z\ntests: []\n", f"a: 1\n{LINE}tests: []\n"),
    ],
)
def test_the_deadline_changes_only_its_own_line(text, expected):
    assert with_deadline(text, NOW) == expected
    assert yaml.safe_load(expected)["deadline"] == NOW


def test_archiving_leaves_a_one_line_task_yml_unchanged(tree, capsys):
    path = tree / "tiny" / "task.yml"
    path.write_text("{title: One line, tests: [{size: 1}], benchmarks: [{size: 1}]}\n")
    before = path.read_bytes()
    assert run(["task", "archive", "tiny", "--tasks", str(tree)]) == 2
    assert "insert this line by hand: deadline: 20" in capsys.readouterr().err
    assert path.read_bytes() == before


def test_a_purge_requires_the_typed_name(tree, capsys):
    for confirm in ([], ["--confirm", "tniy"]):
        assert run(["task", "archive", "tiny", "--purge", *confirm, "--tasks", str(tree)]) == 2
        assert "nothing was deleted" in capsys.readouterr().err
    assert (tree / "tiny" / "task.yml").exists()
    assert run(["task", "archive", "tiny", "--confirm", "tiny", "--tasks", str(tree)]) == 2
    assert "are for --purge" in capsys.readouterr().err


def test_a_task_whose_files_others_use_is_not_purged(tree, capsys):
    files = "files: [{name: submission.py, source: '@SUBMISSION@'}, {name: reference.py, source: ../tiny/reference.py}]"
    edit(tree / "small" / "task.yml", "gpus: [CPU]", f"gpus: [CPU]\n{files}")
    assert run(["task", "archive", "tiny", "--purge", "--confirm", "tiny", "--tasks", str(tree)]) == 2
    assert "small uses files of tiny" in capsys.readouterr().err
    assert (tree / "tiny" / "task.yml").exists()


# Diff.


def changes(before: Path, after: Path) -> dict[str, tuple[Effect, tuple[str, ...]]]:
    """The effect on the board of tiny."""
    found = find_changes({"tiny": load_task(before / "tiny")}, {"tiny": load_task(after / "tiny")})
    return {one.gpu: (one.effect, one.because) for one in found}


EDITS = {
    "a case": ("size: 100, seed", "size: 101, seed", Effect.RESET, "tests: 1 gone, 1 new"),
    "a limit": ("memory_gib: 1", "memory_gib: 2", Effect.RESET, "memory_gib: 1.0 → 2.0"),
    "how it ranks": ("case_timeout: 3", "case_timeout: 3\nranking_by: mean", Effect.RESET, "ranking_by: geom → mean"),
    "prose": ("plus one", "plus 1", Effect.KEPT, "description"),
    "the deadline": ("gpus: [CPU]", f"gpus: [CPU]\n{LINE}", Effect.KEPT, "deadline"),
}


@pytest.mark.parametrize(("old", "new", "effect", "because"), EDITS.values(), ids=EDITS)
def test_a_change_to_task_yml_is_reported_with_effect_and_reason(old, new, effect, because, tree, tmp_path):
    shutil.copytree(tree, tmp_path / "before")
    edit(tree / "tiny" / "task.yml", old, new)
    assert changes(tmp_path / "before", tree) == {"CPU": (effect, (because,))}


def test_the_diff_distinguishes_files_anchor_and_boards(tree, tmp_path):
    before = tmp_path / "before"
    shutil.copytree(tree, before)
    assert changes(before, tree) == {}
    edit(tree / "tiny" / "examples" / "wrong_answer" / "identity.py", "return data", "return -data")
    assert changes(before, tree) == {"CPU": (Effect.KEPT, ("examples",))}
    edit(tree / "tiny" / "examples" / "accepted" / "plain.py", "data + 1", "1 + data")
    assert changes(before, tree) == {"CPU": (Effect.RESET, ("anchor",))}
    edit(tree / "tiny" / "reference.py", "1e-6", "1e-5")
    (tree / "tiny" / "utils.py").write_text("")
    edit(tree / "tiny" / "task.yml", "[CPU]", "[CPU, H100]")
    found = changes(before, tree)
    assert found["CPU"] == (Effect.RESET, ("reference.py", "utils.py is new", "anchor"))
    assert found["H100"] == (Effect.NEW, ())
    assert changes(tree, before)["H100"] == (Effect.GONE, ())


def test_the_diff_names_the_authors_in_the_ledger_that_a_change_resets(tree, tmp_path, capsys):
    kernel = tree / "tiny" / "examples" / "accepted" / "plain.py"
    shutil.copytree(tree, tmp_path / "before")
    board = load_task(tree / "tiny").board("CPU")
    judgement = _walled_judgement(board, kernel)
    Ledger(tmp_path / "ledger").append(judgement, "r1")
    edit(tree / "tiny" / "task.yml", "size: 1000", "size: 2000")
    diff = ["task", "diff", str(tmp_path / "before"), "--tasks", str(tree), "--ledger", str(tmp_path / "ledger")]
    capsys.readouterr()
    assert run([*diff, "--json"]) == 0
    (change,) = json.loads(capsys.readouterr().out)
    assert (change["effect"], change["logins"]) == ("starts anew", ["ada"])
    assert run(diff) == 0
    assert re.search(r"tiny\s+CPU\s+starts anew\s+benchmarks: 1 gone, 1 new\s+ada", capsys.readouterr().out)


def _walled_judgement(board, kernel):
    """A ranked judgement of ada's, as if made in a sandbox."""
    from harness.judge import judge
    from harness.records.fields import Mode
    from harness.records.judgement import Claim
    from harness.task.submission import read_submission

    made = judge(board, read_submission(kernel, login="ada"), Mode.RANKED, sandbox="none")
    walls = made.sandbox.model_copy(update={"kind": "bubblewrap"})
    return made.model_copy(update={"sandbox": walls, "claim": Claim.BOUNDED})


def git(folder: Path, *arguments: str) -> None:
    who = ["-c", "user.name=t", "-c", "user.email=t@example.com"]
    subprocess.run(["git", "-C", folder, *who, *arguments], check=True, capture_output=True)


def test_the_diff_compares_a_commit_with_the_working_tree(tree, tmp_path, capsys):
    git(tmp_path, "init", "--quiet")
    assert run(["task", "diff", "HEAD", "--tasks", str(tree)]) == 2
    assert "'HEAD' is neither a folder nor a commit" in capsys.readouterr().err
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "-m", "tasks")
    assert run(["task", "diff", "--tasks", str(tree)]) == 0
    assert "No board changes against HEAD." in capsys.readouterr().out
    edit(tree / "tiny" / "reference.py", "1e-6", "1e-5")
    shutil.rmtree(tree / "small")
    assert run(["task", "diff", "--tasks", str(tree)]) == 0
    said = capsys.readouterr().out
    assert re.search(r"tiny\s+CPU\s+starts anew\s+reference.py", said)
    assert re.search(r"small\s+CPU\s+gone", said)
    assert "1 of 2 boards would begin a new edition" in said


def test_the_diff_names_a_new_timing_method_that_resets_every_board(tree, tmp_path, capsys):
    source = (ROOT / "harness" / "task" / "task.py").read_text()
    (tmp_path / "harness" / "task").mkdir(parents=True)
    (tmp_path / "harness" / "task" / "task.py").write_text(source.replace(f"\nMETHOD = {METHOD}\n", "\nMETHOD = 0\n"))
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "-m", "as it was")
    assert run(["task", "diff", "--tasks", str(tree)]) == 0
    said = capsys.readouterr().out
    for name in ("small", "tiny"):
        assert re.search(rf"{name}\s+CPU\s+starts anew\s+method: 0 → {METHOD}", said)


def test_a_single_folder_is_compared_with_the_task_of_its_name(tree, tmp_path, capsys):
    shutil.copytree(tree / "tiny", tmp_path / "tiny")
    edit(tmp_path / "tiny" / "reference.py", "1e-6", "1e-5")
    assert run(["task", "diff", str(tmp_path / "tiny"), "--tasks", str(tree)]) == 0
    said = capsys.readouterr().out
    assert "starts anew" in said and "small" not in said


# The schema.


def test_the_schema_that_editors_read_is_current():
    assert json.loads((ROOT / "tasks" / SCHEMA).read_text()) == task_schema(), (
        f"run: pullrank schema task > tasks/{SCHEMA}"
    )
