"""`pullrank task check` goes on, with one message, after a task whose code ends or hangs the process that checks it."""

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from scripts.cli import run

ROOT = Path(__file__).parent.parent
TINY = ROOT / "tests" / "tasks" / "tiny"

EXITS = "import os\n    os._exit(0)"
CRASHES = "import ctypes\n    ctypes.string_at(0)"
HANGS = "import time\n    time.sleep(1000)"
PRINTS = "while True:\n        print('againü')"


def task(folder: Path, name: str, ref_kernel: str = "") -> Path:
    """tests/tasks/tiny under another name; `ref_kernel` replaces the body of its function."""
    made = shutil.copytree(TINY, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in made.rglob("*.py"):
        path.write_text(path.read_text().replace("leaderboard tiny", f"leaderboard {name}"))
    if ref_kernel:
        with (made / "reference.py").open("a") as file:
            file.write(f"\n\ndef ref_kernel(data):\n    {ref_kernel}\n")
    return made


def test_a_task_that_ends_the_check_does_not_keep_the_others_from_being_checked(tmp_path, capsys):
    tmp_path /= "tür"
    paths = [task(tmp_path, "exits", EXITS), task(tmp_path, "crashes", CRASHES), task(tmp_path, "good")]
    assert run(["task", "check", *map(str, paths), "--sandbox", "none", "--json"]) == 2
    report = json.loads(capsys.readouterr().out)
    assert {(one["task"], one["got"]) for one in report["examples"]} == {("good", "AC"), ("good", "WA")}
    exits, crashes = [one for one in report["remarks"] if one["is_fatal"]]
    assert exits["where"] == crashes["where"] == "reference, test 1 of 2"
    assert exits["message"] == (
        f"{tmp_path}/exits/reference.py: the task's code ended the process with exit code 0, as os._exit does"
    )
    assert crashes["message"] == f"{tmp_path}/crashes/reference.py:21: the process crashed: Segmentation fault"


@pytest.mark.parametrize("code", [HANGS, PRINTS], ids=["silently", "while it prints"])
def test_a_step_that_takes_too_long_ends_with_the_line(code, tmp_path, capsys):
    assert run(["task", "check", str(task(tmp_path, "tiny", code)), "--sandbox", "none", "--minutes", "0.3"]) == 2
    said = capsys.readouterr()
    line = f"{tmp_path}/tiny/reference.py:21: takes longer than 0.3 min; --minutes allows more"
    assert f"fault    tiny: reference, test 1 of 2: {line}" in said.out
    assert ("againü\nagainü\n" in said.err) is (code == PRINTS) and "again" not in said.out
    assert "\ufffd" not in said.err


def test_a_reference_that_forks_does_not_check_twice(tmp_path, capsys):
    forks = "import os\n    if not os.environ.get('FORKED'):\n        os.environ['FORKED'] = '1'\n        os.fork()"
    path = task(tmp_path, "forks", forks + "\n    return data + 1")
    assert run(["task", "check", str(path), "--sandbox", "none", "--minutes", "0.5"]) == 0
    assert "2 of 2 examples got the verdict of their folder; no faults" in capsys.readouterr().out


def test_tasks_that_do_not_load_are_entries_of_the_report(tmp_path, capsys):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "task.yml").write_text("benchmark_timout: 3\n")
    paths = [str(tmp_path / "one"), str(task(tmp_path, "good")), "no-such-task", str(tmp_path / "two")]
    assert run(["task", "check", *paths, "--static", "--json"]) == 2
    remarks = json.loads(capsys.readouterr().out)["remarks"]
    assert [(one["task"], one["is_fault"]) for one in remarks] == [("one", True), ("no-such-task", True), ("two", True)]
    assert f"{tmp_path}/one/task.yml:1: benchmark_timout: unknown key" in remarks[0]["message"]
    assert run(["task", "check", *paths, "--static"]) == 2
    said = capsys.readouterr()
    assert said.err.count("benchmark_timout") == 2 and "1 task read, nothing run; 3 faults, no warnings." in said.out


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)],
    ids=["Ctrl-C", "being told to end", "being killed"],
)
def test_the_process_that_checks_ends_with_the_command(number, code, tmp_path):
    pid = tmp_path / "pid"
    hangs = (
        f"import os, pathlib, time\n    pathlib.Path({str(pid)!r}).write_text(str(os.getpid()))\n    time.sleep(1000)"
    )
    words = [
        sys.executable,
        "-m",
        "scripts.cli",
        "task",
        "check",
        str(task(tmp_path, "tiny", hangs)),
        "--sandbox",
        "none",
    ]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        await_true(lambda: pid.exists() and pid.read_text() != "")
        process.send_signal(number)
        said = process.communicate(timeout=30)[1]
    assert process.returncode == code
    assert "Traceback" not in said
    await_true(lambda: not is_running(int(pid.read_text())))


def is_running(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def await_true(condition) -> None:
    give_up = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.05)
