"""On macOS and Windows, also without torch: what works there works, and what judges names the ways out."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from scripts.cli import COMMANDS
from scripts.common.git_command import Git
from tests.test_git_ledger import add, asked, bare, files, url

__all__ = ["bare"]

ROOT = Path(__file__).parent.parent
SYSTEMS = {"darwin": "macOS", "win32": "Windows"}
PROGRAM = """
import json, sys, tempfile
from contextlib import redirect_stderr, redirect_stdout
from tests.other_system import show
show(sys.argv[1])
from scripts.cli import main

def end_of(words):
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        with redirect_stdout(out), redirect_stderr(err):
            try:
                main(words)
            except SystemExit as end:
                code = end.code
        out.seek(0), err.seek(0)
        return code, out.read(), err.read()

print(json.dumps([end_of(words) for words in json.loads(sys.argv[2])]))
"""
JUDGING = ("test", "benchmark", "profile", "rank", "duel")


@dataclass(frozen=True)
class Ended:
    """A command that has ended."""

    code: int
    out: str
    err: str


def on(system: str, folder: Path, *calls: str) -> list[Ended]:
    """Run commands one after the other in a process that sees another system."""
    words = json.dumps([call.split() for call in calls])
    return [Ended(*one) for one in json.loads(python(PROGRAM, folder, system, words))]


def python(program: str, folder: Path, *arguments: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("GH_", "GITHUB_"))}
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], cwd=folder, env=environment | {"PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_command_shows_its_help(system: str, tmp_path: Path) -> None:
    calls = ["--help", *(f"{name} --help" for name in COMMANDS)]
    assert [(one.code, one.err) for one in on(system, tmp_path, *calls)] == [(0, "")] * len(calls)


@pytest.mark.parametrize("system", SYSTEMS)
def test_what_needs_no_judge_works(system: str, tmp_path: Path) -> None:
    (tmp_path / "ledger/judgements").mkdir(parents=True)
    (tmp_path / ".site.build-of-a-killed-process").mkdir()
    calls = (
        "tasks",
        "gpus",
        "schema task",
        "task show vectoradd",
        "task files vectoradd reference.py",
        "task template vectoradd --out my.py",
        "init vectoradd --out work",
        "task new mine --tasks own",
        "task check own/mine --static",
        "task archive mine --tasks own",
        "tasks --tasks own",
        "board vectoradd --ledger ledger",
        "site build --ledger ledger --out site",
        "site build --ledger ledger --out site",
    )
    for call, one in zip(calls, on(system, tmp_path, *calls), strict=True):
        assert one.code == 0, (call, one)
    for name in ("my.py", "work/submission.py", "own/mine/task.yml"):
        assert b"\r" not in (tmp_path / name).read_bytes()
    assert (tmp_path / "site/index.html").is_file() and len(list(tmp_path.glob(".site.build-*"))) == 1


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_command_that_judges_says_that_it_needs_linux_and_the_ways_out(system: str, tmp_path: Path) -> None:
    on(system, tmp_path, "init vectoradd")
    file = "vectoradd/submission.py"
    judging = [f"{name} {file}{f' {file}' * (name == 'duel')}" for name in JUDGING]
    judging.append(f"test {file} --sandbox none")
    others = ["verify judgement.json", "demo --no-serve", f"task check {ROOT / 'tasks/vectoradd'}"]
    others += ["doctor --runner", "doctor --board H100 --site https://acme.github.io/kernels/"]
    ended = on(system, tmp_path, *judging, *others)
    need = (
        f"pullrank: judging needs Linux, and this is {SYSTEMS[system]}: use a machine with Linux, or a virtual machine"
    )
    assert [(one.code, one.out, one.err.count("\n")) for one in ended] == [(2, "", 1)] * len(ended)
    assert [one.err for one in ended if not one.err.startswith(need)] == []
    assert all(
        "`pullrank submit FILE --draft` runs it on a machine for CPU" in one.err for one in ended[: len(judging)]
    )
    assert "`--static` only reads the files" in ended[len(judging) + 2].err


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_doctor_names_the_system_before_anything_that_would_be_installed_in_vain(
    system: str, tmp_path: Path
) -> None:
    (ended,) = on(system, tmp_path, "doctor --json")
    missing = [one for one in json.loads(ended.out) if one["state"] == "missing"]
    assert (ended.code, [one["name"] for one in missing]) == (1, ["Linux"])
    assert missing[0]["detail"] == f"this is {SYSTEMS[system]}" and "submit FILE --draft" in missing[0]["remedy"]


ADDING = """
import sys
from tests.other_system import show
show("win32")
from scripts.ledger.branch import LedgerBranch
from scripts.ledger.request import Request
with LedgerBranch(sys.argv[1]) as branch:
    branch.ledger.append_request(Request.from_json(sys.argv[2].encode()))
    print(len(branch.commit("one more")), [one.request.pull_request for one in branch.ledger.requests(pulls={2, 3})])
"""


def test_windows_adds_to_the_ledger_under_the_same_names(bare: Path, tmp_path: Path) -> None:
    first, second = asked(1), asked(2)
    add(bare, first)
    assert python(ADDING, tmp_path, url(bare), second.to_json()) == "1 [2]\n"
    assert files(bare) == {first.place.as_posix(), second.place.as_posix()}


def test_git_gets_what_it_needs_on_windows_to_find_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SYSTEMROOT", r"C:\Windows")
    monkeypatch.setenv("TEMP", r"C:\Temp")
    said = Git(tmp_path, "").run("-c", "alias.told=!printenv SYSTEMROOT TEMP", "told")
    assert said.decode().splitlines() == [r"C:\Windows", r"C:\Temp"]
