"""The command line as its users see it: help, exit codes, messages, JSON, and Ctrl-C."""

import ctypes
import errno
import json
import os
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from inspect import cleandoc
from io import StringIO
from pathlib import Path

import click
import pytest
from rich.console import Console

from harness.gpu.gpu_nodes import find_gpus
from harness.processes.freezer import children
from harness.records.fields import Mode
from harness.records.judgement import Judgement
from harness.records.progress import Progress
from harness.records.verdict import Verdict
from scripts.bot.ci import ci
from scripts.cli import COMMANDS, cli, run
from scripts.common.terminal import Display, time_left
from tests.terminal import Terminal

pytestmark = pytest.mark.usefixtures("shared_sandbox")
ROOT = Path(__file__).parent.parent
TINY = ROOT / "tests" / "tasks" / "tiny"
GOOD = "def custom_kernel(data):\n    return data + 1\n"
PULLRANK = [sys.executable, "-m", "scripts.cli"]
UNWALLED = ["--sandbox", "none"]


def commands(group: click.Group = cli, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    """Every command that can be typed, as `task show`."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command
        yield " ".join((*path, name)), command
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))


ALL = dict(commands())


def submission(folder: Path, source: str | bytes = GOOD, name: str = "kernel.py") -> Path:
    path = folder / name
    path.write_bytes(source if isinstance(source, bytes) else source.encode())
    return path


# Help.


@pytest.mark.parametrize("name", ALL)
def test_every_command_has_one_plain_sentence_and_an_example(name):
    sentence, *rest = cleandoc(ALL[name].help or "").split("\n\n")
    assert re.fullmatch(r"[A-Z][^.]*\.", sentence), sentence
    assert any(part.startswith(f"Example: pullrank {name.split()[0]}") for part in rest), rest


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_matches_each_commands_own_help(name):
    assert " ".join((ALL[name].help or "").split("\n\n")[0].split()) == COMMANDS[name][1]


@pytest.mark.parametrize("name", [name for name, command in ALL.items() if not isinstance(command, click.Group)])
def test_every_command_is_mentioned_in_the_documents(name):
    documents = [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "tasks" / "README.md",
        *(ROOT / "site" / "pages").glob("*.md"),
    ]
    text = "\n".join(path.read_text() for path in documents)
    assert f"pullrank {name}" in text or (name == "demo" and "make demo" in text)


@pytest.mark.parametrize("name", ALL)
def test_every_option_says_what_it_is_for(name):
    options = [one for one in ALL[name].params if isinstance(one, click.Option)]
    assert [one.name for one in options if not one.help] == []


def test_help_is_quick_and_loads_no_command():
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    code = "import sys, scripts.cli as c; c.run(['--help']); print({'torch', 'pydantic', 'rich'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.stdout.endswith("set()\n")
    # CPU time: the wall-clock time depends on other users of the machine.
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 0.3


# Errors.


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["tets"], 2, "No such command 'tets'; did you mean 'test'?"),
        (["submt"], 2, "No such command 'submt'; did you mean 'submit'?"),
        (["ben"], 2, "No such command 'ben'; did you mean 'benchmark'?"),
        (["b"], 2, "No such command 'b'.\n"),
        (["xyzzy"], 2, "No such command 'xyzzy'."),
        (["test"], 2, "Missing argument"),
        (["test", "nowhere.py"], 2, "nowhere.py: no such file"),
        (["test", "{folder}"], 2, "is a folder"),
        (["test", "{kernel}"], 2, "#!POPCORN leaderboard NAME"),
        (["test", "{kernel}", "--task", "vectorad"], 2, "did you mean 'vectoradd'?"),
        (["test", "{kernel}", "--task-dir", "{folder}"], 2, "no file 'task.yml'"),
        (["test", "{kernel}", "--task", "vectoradd", "--gpu", "H10"], 2, "did you mean 'H100'?"),
        (["test", "{directed}", "--task", "matmul"], 2, "--task says 'matmul'"),
        (["test", "{kernel}", "--task", "vectoradd", "--out", "/nowhere/judgement.json"], 2, "no folder /nowhere"),
        (["duel", "{kernel}"], 2, "Missing argument 'B'"),
        (["duel", "{kernel}", "nowhere.py", "--task", "vectoradd"], 2, "nowhere.py: no such file"),
        (["duel", "{kernel}", "{kernel}"], 2, "#!POPCORN leaderboard NAME"),
        (["duel", "{directed}", "{strayed}"], 2, "but its directive says 'vectoradd'"),
        (["duel", "{directed}", "{tiny}"], 2, "directed.py is for 'vectoradd', but"),
        (["duel", "{kernel}", "{directed}", "--gpu", "H10"], 2, "did you mean 'H100'?"),
        (["duel", "{on_h100}", "{on_cpu}"], 2, "on_cpu.py is for CPU: name the duel's board with --gpu"),
        (["duel", "{kernel}", "{kernel}", "--task", "vectoradd", "--blocks", "7"], 2, "7 is not in the range 8<=x<=200"),
        (["task", "show", "nothing"], 2, "no task 'nothing'"),
        (["task", "template", "vectoradd", "--language", "Pyton"], 2, "did you mean 'Python'?"),
        (["task", "check", "{folder}"], 2, "no task.yml in"),
        (["task", "check", "tasks"], 2, "no task.yml in tasks; name the folders in it: tasks/*"),
        (["task", "check", "tasks/sort/task.yml"], 2, "name the task's folder, not its task.yml"),
        (["task", "check", "nothing", "nowhere"], 2, "no task 'nowhere'"),
        (["board", "vectoradd", "--gpu", "CPV", "--ledger", "{ledger}"], 2, "did you mean 'CPU'?"),
        (["board", "vectoradd", "--ledger", "tests/judgements"], 2, "this folder is no ledger"),
        (["board", "vectoradd", "--ledger", ""], 2, "--ledger .: this folder is no ledger"),
        (["site", "serve", "{folder}"], 2, "has no site"),
        (["test", "{kernel}", "--task", "vectoradd", "--out", "{folder}"], 2, "cannot be written"),
        (["test", "{placed}", "--task", "vectoradd"], 2, "the folder of the task 'home', but --task says 'vectoradd'"),
        (["test", "{strayed}"], 2, "the folder of the task 'home', but its directive says 'vectoradd'"),
        (["test", "{kernel}", "--task", "matmul", "--task-dir", "{folder}"], 2, "use one of them"),
        (["board", "vectoradd", "--ledger", "nowhere"], 2, "--ledger nowhere: there is no such folder"),
        (["site", "build", "--ledger", "nowhere"], 2, "--ledger nowhere: there is no such folder"),
        (["site", "build", "--address", "kernels.example"], 2, "an address begins with https://"),
        (["demo", "--out", "{folder}"], 2, "it must be a new or empty folder"),
        (["schema", "tax"], 2, "'tax' is not one of"),
    ],
)  # fmt: skip
def test_a_wrong_call_gets_one_message_and_exit_code_2(arguments, code, message, tmp_path, capsys):
    home = tmp_path / "home"
    home.mkdir()
    (home / "task.yml").touch()
    ledger = tmp_path / "ledger"
    (ledger / "announced").mkdir(parents=True)
    places = {
        "folder": tmp_path,
        "ledger": ledger,
        "placed": submission(home, name="placed.py"),
        "strayed": submission(home, f"#!POPCORN leaderboard vectoradd\n{GOOD}", "strayed.py"),
        "tiny": TINY / "examples" / "accepted" / "plain.py",
        "kernel": submission(tmp_path),
        "directed": submission(tmp_path, f"#!POPCORN leaderboard vectoradd\n{GOOD}", "directed.py"),
        "on_h100": submission(tmp_path, f"#!POPCORN leaderboard vectoradd\n#!POPCORN gpus H100\n{GOOD}", "on_h100.py"),
        "on_cpu": submission(tmp_path, f"#!POPCORN leaderboard vectoradd\n#!POPCORN gpus CPU\n{GOOD}", "on_cpu.py"),
    }
    assert run([argument.format(**places) for argument in arguments]) == code
    said = capsys.readouterr()
    assert message in said.err
    assert "Traceback" not in said.err
    assert said.out == ""


@pytest.mark.parametrize("name", [*ALL, *dict(commands(ci, ("ci",)))])
def test_an_option_that_counts_once_is_refused_if_it_is_given_twice(name, capsys):
    command = ({**ALL, **dict(commands(ci, ("ci",)))})[name]
    for option in command.params:
        if isinstance(option, click.Option) and not option.multiple:
            given = [option.opts[0]] if option.is_flag else [option.opts[0], "x"]
            assert run([*name.split(), *given, *given, "--help"]) == 2
            assert f"Option '{option.opts[0]}' is given more than once. Give it once." in capsys.readouterr().err


def test_task_check_reports_all_faults_of_all_tasks_at_once(tmp_path, capsys):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "task.yml").write_text("benchmark_timout: 3\n")
    assert run(["task", "check", str(tmp_path / "one"), str(tmp_path / "two")]) == 2
    assert capsys.readouterr().err.count("benchmark_timout") == 2


def test_an_internal_error_gets_one_message_and_exit_code_3(monkeypatch, capsys):
    monkeypatch.setitem(COMMANDS, "broken", ("schema", "Break."))
    assert run(["broken"]) == 3
    assert "internal error: AttributeError" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (OSError(errno.ENOSPC, "No space left"), 3, "a disk is full: the output's, or that of /small"),
        (OSError(errno.ENOSPC, "No space left", "a/b"), 3, "a/b: the disk is full"),
        (OSError(errno.EDQUOT, "Quota exceeded", "a/b"), 3, "a/b: Quota exceeded"),
        (OSError(errno.EMFILE, "Too many open files", "a/b"), 3, "a/b: Too many open files"),
        (OSError(errno.EAGAIN, "Try again"), 3, f"[Errno {errno.EAGAIN}] Try again"),
        (OSError(errno.ENOENT, "No such file", "a/b"), 2, "a/b: No such file"),
        (OSError("no data"), 2, "no data"),
    ],
)
def test_a_failure_of_the_machine_is_no_wrong_input(error, code, message, monkeypatch, capsys):
    @click.command()
    def fail() -> None:
        raise error

    monkeypatch.setenv("TMPDIR", "/small")
    assert run([], fail) == code
    assert capsys.readouterr().err == f"pullrank: {message}\n"


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (
            "ModuleNotFoundError('No module named torch', name='torch')",
            2,
            "No module named torch: install pullrank[compete] to judge, pullrank[bot] to submit, pullrank[hosted] for "
            "sites; in a clone: make setup",
        ),
        (
            "ImportError('libcudnn.so.9: failed to map segment', name='_C')",
            3,
            "a package cannot be loaded: libcudnn.so.9: failed to map segment (is there enough memory? "
            "is the installation complete?)",
        ),
    ],
)
def test_a_package_that_is_missing_or_broken_is_no_internal_error(error, code, message, tmp_path):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch/version.py").touch()
    (tmp_path / "torch/__init__.py").write_text(f"raise {error}\n")
    command = [*PULLRANK, "test", str(submission(tmp_path)), "--task-dir", str(TINY), *UNWALLED]
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}:{ROOT}"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == code
    assert done.stderr.endswith(f"pullrank: {message}\n")


def test_a_closed_pipe_causes_no_error_message():
    done = subprocess.run(
        f"{sys.executable} -m scripts.cli schema judgement | head -1",
        shell=True,
        check=True,
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert (done.stdout, done.stderr) == ("{\n", "")


@pytest.mark.parametrize("words", ["schema judgement", "tasks", "test FILE --out kept.json", "test FILE --json"])
def test_a_command_whose_reader_is_gone_exits_as_if_sigpipe_ended_it(words, tmp_path):
    file = ROOT / "tasks/vectoradd/examples/accepted/in_float32.py"
    line = f"{sys.executable} -m scripts.cli {words.replace('FILE', str(file))} --sandbox none"
    line = line if "FILE" in words else line.removesuffix(" --sandbox none")
    done = subprocess.run(
        ["bash", "-c", f"{line} > >(exec true); exit $?"], capture_output=True, text=True, cwd=tmp_path, check=False,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 141, done.stderr
    assert "Traceback" not in done.stderr and "BrokenPipe" not in done.stderr
    assert (tmp_path / "kept.json").exists() is ("--out" in words)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("schema task >&-", 0),
        ("schema tax 2>&-", 2),
        ("schema tax >&- 2>&-", 2),
        ("board nothing 2> >(exec true)", 2),
    ],
)
def test_the_exit_code_is_the_same_if_nobody_reads_the_output(line, code):
    command = f"{sys.executable} -m scripts.cli {line}; exit $?"
    assert subprocess.run(["bash", "-c", command], capture_output=True, cwd=ROOT, check=False).returncode == code


def test_what_an_ascii_terminal_cannot_show_is_escaped():
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": ""}
    done = subprocess.run(
        [*PULLRANK, "task", "show", "attention"], cwd=ROOT, env=os.environ | ascii_only, capture_output=True, check=True
    )
    assert b"\\xb7" in done.stdout and done.stdout.isascii()


# Looking around.


def test_the_tasks_are_listed_for_people_and_for_scripts(capsys):
    assert run(["tasks"]) == 0
    assert "Vector addition" in capsys.readouterr().out
    assert run(["tasks", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [task["name"] for task in listed] == sorted(path.parent.name for path in ROOT.glob("tasks/*/task.yml"))


def test_a_gpu_of_the_settings_that_no_task_names_is_reported(tmp_path, capsys):
    shutil.copytree(TINY, tmp_path / "tasks/tiny")
    task = (tmp_path / "tasks/tiny/task.yml").read_text().replace("gpus: [CPU]", "gpus: [CPU, H100]")
    (tmp_path / "tasks/tiny/task.yml").write_text(task)
    (tmp_path / ".github").mkdir()
    machine = "{runs_on: [self-hosted, x]}"
    (tmp_path / ".github/pullrank.yml").write_text(f"gpus:\n  H10O: {machine}\n  V200: {machine}\n  H100: {machine}\n")
    assert run(["tasks", "--tasks", str(tmp_path / "tasks")]) == 0
    said = capsys.readouterr().out
    assert "gpus.H10O: no task has this board; did you mean 'H100'?" in said
    assert "gpus.V200: no task has this board; name it in the `gpus:`" in said and "gpus.H100" not in said


def test_a_task_is_shown_with_its_cases_and_its_editions(capsys):
    assert run(["task", "show", "vectoradd"]) == 0
    shown = capsys.readouterr().out
    assert "size: 127" in shown and "Ranked by the geometric mean of the benchmarks." in shown
    assert "H100" in shown
    assert run(["task", "show", "vectoradd", "--json"]) == 0
    boards = json.loads(capsys.readouterr().out)["boards"]
    assert all(re.fullmatch("[0-9a-f]{64}", board["edition"]) for board in boards)


def test_a_template_never_overwrites_an_existing_file(tmp_path, capsys):
    out = tmp_path / "submission.py"
    assert run(["task", "template", "vectoradd", "--out", str(out)]) == 0
    assert "custom_kernel" in out.read_text()
    assert run(["task", "template", "vectoradd", "--out", str(out)]) == 2
    assert f"{out}: File exists" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["task", "judgement"])
def test_a_schema_is_printed_as_json(kind, capsys):
    assert run(["schema", kind]) == 0
    assert json.loads(capsys.readouterr().out)["type"] == "object"


def test_a_board_without_entries_says_so(tmp_path, capsys):
    assert run(["board", "vectoradd", "--ledger", str(tmp_path)]) == 0
    assert "No ranked entries on vectoradd / CPU" in capsys.readouterr().out
    assert run(["board", "vectoradd", "--ledger", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == []


def test_a_site_is_built_from_an_empty_ledger_and_served_until_ctrl_c(tmp_path, capsys):
    site = tmp_path / "_site"
    assert run(["site", "build", "--ledger", str(tmp_path), "--out", str(site), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 0
    with started("site", "serve", str(site)) as process:
        assert process.stdout
        url = process.stdout.readline().split()[0]
        assert b"<!doctype html>" in urllib.request.urlopen(url, timeout=10).read().lower()
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0


# Judging.


BROKEN = "def custom_kernel(data:\n"
"""A file that is refused before it runs, so that no mode starts a player for it."""


@pytest.mark.parametrize(("source", "code", "verdict"), [(GOOD, 0, Verdict.ACCEPTED), ("", 1, Verdict.COMPILE_ERROR)])
def test_the_exit_code_says_whether_the_file_was_accepted(source, code, verdict, tmp_path, capsys):
    out = tmp_path / "judgement.json"
    file = submission(tmp_path, source)
    assert run(["test", str(file), "--task-dir", str(TINY), *UNWALLED, "--json", "--out", str(out)]) == code
    said = capsys.readouterr()
    judgement = Judgement.from_json(said.out)
    assert judgement.verdict is verdict
    assert out.read_text() == said.out
    assert "\x1b" not in said.err


@pytest.mark.parametrize("words", [["--json"], []])
def test_a_judgement_that_cannot_be_written_is_printed_all_the_same(words, tmp_path, capsys, monkeypatch):
    out = tmp_path / "judgement.json"

    def fill_disk(path: Path, *_: object) -> None:
        path.write_bytes(b"{")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", fill_disk)
    command = ["test", str(submission(tmp_path, BROKEN)), "--task-dir", str(TINY), *UNWALLED, "--out", str(out)]
    assert run([*command, *words]) == 3
    said = capsys.readouterr()
    assert Judgement.from_json(said.out).verdict is Verdict.COMPILE_ERROR if words else "CE" in said.out
    assert f"pullrank: --out {out}: No space left on device" in said.err
    assert not out.exists()


def test_each_test_gets_a_line_and_the_files_output_is_sanitized(tmp_path, capsys):
    file = submission(
        tmp_path, "print('\\x1b[31mred', flush=True)\ndef custom_kernel(data):\n    return data + len(data)\n"
    )
    assert run(["test", str(file), "--task-dir", str(TINY), *UNWALLED]) == 1
    said = capsys.readouterr()
    assert re.search(r"AC\s+size: 1, seed: 11", said.out)
    assert re.search(r"WA\s+size: 100, seed: 12\s+output\[0\] is", said.out)
    assert "\\x1b[31mred" in said.out
    assert "test 2 of 2" in said.err


@pytest.mark.walls
def test_a_traceback_is_printed_once_and_an_accepted_files_output_too(tmp_path, capsys):
    file = submission(tmp_path, "def custom_kernel(data):\n    raise ValueError('odd')\n")
    assert run(["test", str(file), "--task-dir", str(TINY)]) == 1
    said = capsys.readouterr().out
    assert said.count("line 2: ValueError: odd") == 3 and said.count("in custom_kernel") == 1
    file = submission(tmp_path, "def custom_kernel(data):\n    print('shape', data.shape)\n    return data + 1\n")
    assert run(["test", str(file), "--task-dir", str(TINY)]) == 0
    assert "shape torch.Size([100])" in capsys.readouterr().out


@pytest.mark.skipif(bool(find_gpus()), reason="this machine has a GPU")
@pytest.mark.parametrize("command", [["test"], ["rank", "--json"], ["duel", "{}"]])
def test_a_file_for_a_gpu_is_refused_without_one_with_the_way_out(command, tmp_path, capsys):
    file = submission(tmp_path, "def custom_kernel(data):\n    return data\n")
    words = [command[0], str(file), *(word.format(file) for word in command[1:])]
    assert run([*words, "--task", "vectoradd", "--gpu", "H100", *UNWALLED]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "To judge it here, add `--gpu CPU`. `pullrank submit FILE --draft` runs it on a machine for H100." in said


@pytest.mark.parametrize(
    ("command", "mode"),
    [("test", Mode.TEST), ("benchmark", Mode.BENCHMARK), ("profile", Mode.PROFILE), ("rank", Mode.RANKED)],
)
def test_each_command_judges_in_its_own_mode(command, mode, tmp_path, capsys):
    file = submission(tmp_path, BROKEN)
    assert run([command, str(file), "--task-dir", str(TINY), *UNWALLED, "--json"]) == 1
    judgement = Judgement.from_json(capsys.readouterr().out)
    assert (judgement.mode, judgement.verdict) == (mode, Verdict.COMPILE_ERROR)


def test_a_file_in_a_tasks_folder_is_judged_for_that_task(tmp_path, capsys):
    shutil.copytree(TINY, tmp_path / "tiny")
    assert run(["rank", str(submission(tmp_path / "tiny" / "examples", BROKEN)), *UNWALLED]) == 1
    said = capsys.readouterr().out
    assert "tiny / CPU, ranked" in said
    assert "without a sandbox: it cannot rank" in said


def test_a_duel_prints_json_and_exits_with_0_whichever_file_is_faster(tmp_path, capsys):
    ours, theirs = submission(tmp_path), TINY / "examples" / "accepted" / "plain.py"
    assert run(["duel", str(ours), str(theirs), *UNWALLED, "--blocks", "8", "--json"]) == 0
    said = capsys.readouterr()
    found = json.loads(said.out)
    assert [len(case["a"]) for case in found["cases"]] == [16]
    assert re.match(r"A is faster: speedup|B is faster: speedup|No difference found", found["decision"])
    assert "kernel.py against plain.py on tiny / CPU: B: test 2 of 2" in said.err
    assert "duel, block 8 of 8" in said.err


def test_a_duel_names_the_rejected_file_with_its_verdict(tmp_path, capsys):
    wrong = submission(tmp_path, GOOD.replace("1", "2"), "wrong.py")
    assert run(["duel", str(submission(tmp_path)), str(wrong), "--task-dir", str(TINY), *UNWALLED]) == 1
    said = capsys.readouterr().out
    assert said.startswith(f"B, {wrong}:")
    assert re.search(r"WA\s+size: 100, seed: 12\s+output\[\d+\] is", said)
    assert "A, " not in said
    assert "faster" not in said


@pytest.mark.walls
@pytest.mark.parametrize("in_workflow", ["true", ""])
def test_a_submission_cannot_issue_workflow_commands_to_github(in_workflow, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("GITHUB_ACTIONS", in_workflow)
    file = tmp_path / "submission.py"
    file.write_text(
        "print('::error::forged', flush=True)\ndef custom_kernel(data):\n    raise ValueError('::notice::forged')\n"
    )
    assert run(["test", str(file), "--task", "vectoradd", "--gpu", "CPU"]) == 1
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    forged = [number for number, line in enumerate(lines) if line.startswith("::error::")]
    assert forged
    stops = [number for number, line in enumerate(lines) if re.fullmatch("::stop-commands::[0-9a-f]{32}", line)]
    assert len(stops) == (1 if in_workflow else 0)
    if in_workflow:
        end = lines.index(f"::{lines[stops[0]].rpartition('::')[2]}::")
        assert stops[0] < min(forged) and max(forged) < end


def test_task_check_fails_if_an_example_gets_an_unexpected_verdict(tmp_path, capsys):
    folder = tmp_path / "tasks" / "little"
    for path in TINY.rglob("*.*"):
        target = folder / path.relative_to(TINY)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
    for path in folder.glob("examples/*/*.py"):
        path.write_text(path.read_text().replace("leaderboard tiny", "leaderboard little"))
    (folder / "examples" / "accepted" / "plain.py").write_text("def custom_kernel(data):\n    return data\n")
    (folder.parent / "README.md").write_text("passed over")
    paths = [str(path) for path in folder.parent.iterdir()]
    assert run(["task", "check", *paths, *UNWALLED, "--json"]) == 1
    outcomes = json.loads(capsys.readouterr().out)["examples"]
    got = {outcome["example"]: outcome["got"] for outcome in outcomes}
    assert got == {"accepted/plain.py": "WA", "wrong_answer/identity.py": "WA"}


def test_an_example_that_cannot_be_judged_is_reported_and_others_are_judged(tmp_path, capsys):
    folder = tmp_path / "lame"
    shutil.copytree(TINY, folder)
    for path in folder.glob("examples/*/*.py"):
        path.write_text(path.read_text().replace("leaderboard tiny", "leaderboard lame"))
    reference = folder / "reference.py"
    reference.write_text(reference.read_text() + "\n\ndef generate_input(**_):\n    raise OSError('no data')\n")
    assert run(["task", "check", str(folder), str(TINY), *UNWALLED, "--json"]) == 2
    outcomes = json.loads(capsys.readouterr().out)["examples"]
    assert {(one["task"], one["got"]) for one in outcomes} == {("lame", "JE"), ("tiny", "AC"), ("tiny", "WA")}
    assert all("no data" in one["message"] for one in outcomes if one["task"] == "lame")


LOUD = """
import ctypes, os

def generate_input(size, seed):
    print('{"a": 1}')
    os.write(1, b'{"b": 2}')
    ctypes.CDLL(None).printf(b'{"c": 3}')
    return torch.randn(size, generator=torch.Generator().manual_seed(seed))
"""


@pytest.mark.parametrize("command", ["test", "duel", "verify", "task check"])
def test_what_a_tasks_own_code_prints_is_not_part_of_the_json(command, tmp_path):
    task = shutil.copytree(TINY, tmp_path / "tiny")
    reference = task / "reference.py"
    reference.write_text(reference.read_text() + LOUD)
    file, judgement = submission(tmp_path), tmp_path / "judgement.json"
    calls = {
        "test": ["test", str(file), "--task-dir", str(task)],
        "duel": ["duel", str(file), str(file), "--task-dir", str(task), "--blocks", "8"],
        "verify": ["verify", str(judgement), "--file", str(file), "--task-dir", str(task)],
        "task check": ["task", "check", str(task)],
    }
    if command == "verify":
        judgement.write_text(printed(*calls["test"]).stdout)
    done = printed(*calls[command])
    assert json.loads(done.stdout)
    assert all(found in done.stderr for found in ('{"a": 1}', '{"b": 2}', '{"c": 3}'))


def printed(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PULLRANK, *words, *UNWALLED, "--json"], cwd=ROOT, capture_output=True, text=True, check=True
    )


def test_a_crash_in_a_tasks_own_code_names_the_place(tmp_path):
    task = shutil.copytree(TINY, tmp_path / "tiny")
    reference = task / "reference.py"
    crash = "\nimport ctypes\n\ndef ref_kernel(data):\n    return ctypes.string_at(0)\n"
    reference.write_text(reference.read_text() + crash)
    words = [*PULLRANK, "test", str(submission(tmp_path)), "--task-dir", str(task), *UNWALLED]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGSEGV
    assert "Fatal Python error: Segmentation fault" in done.stderr and "in ref_kernel" in done.stderr


def test_a_deleted_current_folder_gets_one_message(tmp_path):
    words = f"cd {tmp_path} && rmdir {tmp_path} && {shlex.join([*PULLRANK, 'tasks'])}"
    done = subprocess.run(
        ["bash", "-c", words], env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr == "pullrank: the current folder was deleted; change to another one\n"


@pytest.mark.parametrize("closed", [">&-", "2>&-"])
def test_a_file_is_judged_although_stdout_or_stderr_is_closed(closed, tmp_path):
    words = [*PULLRANK, "test", str(submission(tmp_path)), "--task-dir", str(TINY), *UNWALLED]
    assert subprocess.run(["bash", "-c", f"{shlex.join(words)} {closed}"], cwd=ROOT, check=False).returncode == 0


@pytest.mark.parametrize("sandbox", ["none", pytest.param("bubblewrap", marks=pytest.mark.walls)])
@pytest.mark.parametrize(
    ("limit", "code", "said"), [("-Sn 64", 0, ""), ("-n 64", 3, "judging needs 1024 open files: raise the hard limit")]
)
def test_a_low_limit_of_open_files_is_raised_or_named(limit, code, said, sandbox, tmp_path):
    file = submission(tmp_path)
    words = [*PULLRANK, "test", str(file), "--task-dir", str(TINY), "--sandbox", sandbox]
    line = f"ulimit {limit} && exec {shlex.join(words)}"
    done = subprocess.run(["bash", "-c", line], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert said in done.stderr and "--sandbox none" not in done.stderr


# Ctrl-C.


def started(*arguments: str) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [*PULLRANK, *arguments], cwd=ROOT, text=True, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe
    )


@pytest.fixture
def orphans():
    """Make this process adopt orphans, to find processes that others left running."""
    become_subreaper, known = 36, set(children(os.getpid()))
    ctypes.CDLL(None).prctl(become_subreaper, 1)
    yield lambda: [pid for pid in children(os.getpid()) if pid not in known and is_running(pid)]
    ctypes.CDLL(None).prctl(become_subreaper, 0)


@pytest.fixture
def stages():
    """Our own folder for temporary files, since other tests may be judging at the same time; players may enter it."""
    with tempfile.TemporaryDirectory(prefix="stages-") as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


def cgroups_of(pid: int) -> list[Path]:
    """The cgroups of the judge with this pid."""
    return [path for path in Path("/sys/fs/cgroup").rglob(f"pullrank-{pid}*") if path.is_dir()]


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize(
    ("number", "code", "walls"),
    [
        pytest.param(signal.SIGINT, 130, "none", id="Ctrl-C, without walls"),
        pytest.param(signal.SIGINT, 130, "bubblewrap", id="Ctrl-C, with walls", marks=pytest.mark.walls),
        pytest.param(signal.SIGTERM, 143, "bubblewrap", id="being told to end, with walls", marks=pytest.mark.walls),
        pytest.param(signal.SIGHUP, 129, "none", id="a closed terminal, without walls"),
    ],
)
def test_a_stopped_judge_leaves_no_processes_files_or_cgroups(
    number, code, walls, tmp_path, stages, orphans, monkeypatch
):
    file = submission(tmp_path, f"import time\n{GOOD.replace('return', 'time.sleep(30); return')}")
    monkeypatch.setenv("TMPDIR", str(stages))
    with started("test", str(file), "--task-dir", str(TINY), "--sandbox", walls) as process:
        assert process.stderr
        for line in process.stderr:
            if "build" in line:
                break
        time.sleep(0.5)
        cgroups = cgroups_of(process.pid)
        assert list(stages.iterdir())
        process.send_signal(number)
        rest = process.stderr.read()
        ended = process.wait(20), rest.strip()
    assert ended == (code, "pullrank: stopped; nothing is left running" if code == 130 else "")
    give_up = time.monotonic() + 5
    while orphans() and time.monotonic() < give_up:
        time.sleep(0.05)
    assert orphans() == []
    assert list(stages.iterdir()) == []
    assert [path for path in cgroups if path.exists()] == []


# The display.


def drawn(monkeypatch, *, terminal: bool) -> str:
    """The display of two jobs, with ten seconds before each step."""
    now = 0.0
    monkeypatch.setattr("scripts.common.terminal.time.monotonic", lambda: now)
    file = StringIO()
    with Display(Console(file=file, force_terminal=terminal, width=100, markup=False), [4, 4]) as display:
        display.begin("first")
        now += 10
        display.show(Progress(step="test", done=0, total=3, seconds_left=30))
        display.begin("[second]")
        now += 10
        display.show(Progress(step="benchmark", done=1, total=2, seconds_left=70))
    return file.getvalue()


def times_shown(guesses_s: list[float], steps: list[tuple[float, float | None]], monkeypatch) -> list[str]:
    """The remaining times that are shown when jobs take these seconds, each with the judge's estimate at its end."""
    now = 0.0
    monkeypatch.setattr("scripts.common.terminal.time.monotonic", lambda: now)
    file = StringIO()
    with Display(Console(file=file, width=100), guesses_s) as display:
        for number, (seconds, left_s) in enumerate(steps):
            display.begin(f"job {number}")
            now += seconds
            display.show(Progress(step="test", done=0, total=1, seconds_left=left_s))
    return re.findall(r": test(.*)", file.getvalue())


def test_a_single_job_shows_only_the_judges_estimate(monkeypatch):
    assert times_shown([1.0], [(5, None)], monkeypatch) == [""]
    assert times_shown([1.0], [(5, 40)], monkeypatch) == [" (about 40 s left)"]


def test_the_time_left_of_several_jobs_follows_from_the_finished_ones(monkeypatch):
    assert times_shown([10, 10, 20], [(30, 5), (10, None), (10, 15)], monkeypatch) == [
        "",  # no estimate before the first job has ended
        " (about 1 min 20 s left)",  # 30 s each: 20 s of this job, 60 s of the next ones
        " (about 15 s left)",
    ]


def test_a_job_that_takes_longer_than_guessed_shows_no_time_left(monkeypatch):
    assert times_shown([10, 10, 10], [(10, None), (11, None)], monkeypatch)[1] == ""


def test_the_display_shows_the_file_its_progress_and_the_time_left(monkeypatch):
    assert drawn(monkeypatch, terminal=False).splitlines() == [
        "[1/2] first: preparing",
        "[1/2] first: test 1 of 3",
        "[2/2] [second]: preparing (about 10 s left)",
        "[2/2] [second]: benchmark 2 of 2 (about 1 min 10 s left)",
    ]


def test_one_of_several_jobs_prints_more_lines_if_it_takes_long(monkeypatch):
    assert times_shown([10, 10], [(4, 40)], monkeypatch) == []
    assert times_shown([10, 10], [(5, 40)], monkeypatch) == [""]


def test_the_display_is_erased_from_a_terminal_at_the_end(monkeypatch):
    shown = drawn(monkeypatch, terminal=True)
    assert "[second]: benchmark 2 of 2" in shown
    assert shown.rstrip().endswith(("\x1b[2K", "\x1b[?25h"))


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(-3, "about 5 s left"), (12, "about 10 s left"), (119, "about 2 min 0 s left"), (131, "about 2 min 10 s left")],
)
def test_time_left_is_shown_in_steps_of_five_seconds(seconds, said):
    assert time_left(seconds) == said


@pytest.mark.parametrize(
    "call",
    [
        ["mine", "ada", "--ledger", "/nowhere/a-ledger/of-a-competition"],
        ["verify", "/nowhere/judgements/vectoradd/CPU/ada/12-0a1b2c3d4e5f-12-0a1b2c3d4e5f-CPU-ranked-1.json"],
        ["board", "vectoradd", "--an-option-of-sixty-letters-that-is-not-there-whatever-is-typed"],
    ],
)
def test_an_error_message_wraps_at_the_terminals_edge_without_breaking_words(call: list[str]) -> None:
    program = [sys.executable, "-m", "scripts.cli", *call]
    terminal = Terminal(program, columns=60, folder=ROOT, environment=dict(os.environ))
    assert terminal.end() == 2
    lines = [line.strip() for line in re.split(r"[\r\n]+", terminal.text)]
    assert call[-1] in terminal.text and len(lines) > 2
    assert [line for line in lines if len(line) > 60 and " " in line] == []


@pytest.mark.parametrize(
    "words",
    [
        ["tasks", "--site", "https://cup.example", "--tasks", "tasks"],
        ["task", "files", "vectoradd", "reference.py", "--json"],
        ["task", "import", "set.yaml", "--device-alias", "cuda=cpu", "--gpu", "H100"],
        ["task", "check", "--static", "--gpu", "CPU", "tasks/vectoradd"],
        ["task", "check", "--static", "--sandbox", "none", "tasks/vectoradd"],
        ["setup", "--new-app", "--check"],
        ["moderate", "list", "--ledger", ".", "--repo", "acme/kernels"],
    ],
)
def test_options_that_exclude_each_other_are_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(words) == 2
    assert "cannot be combined with" in capsys.readouterr().err
