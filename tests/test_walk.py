"""The page `A task, step by step`, from nothing to a checked task: runs its commands and files, word for word."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

WALK = (ROOT / "site" / "pages" / "organisers-tasks-walk.md").read_text()
FILE = re.compile(r"`(tasks/rowdot/[^`\n]+)`[^`\n]*:\n\n```\w+\n(.*?)```", re.DOTALL)
COMMANDS = re.compile(r"```bash\n(.*?)```", re.DOTALL)
OUTPUT = re.compile(r"```text\n(.*?)```", re.DOTALL)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone of the repository with its environment."""
    for name in ("harness", "scripts"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    command = tmp_path / "bin" / "pullrank"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path} exec {sys.executable} -m scripts.cli "$@"\n')
    command.chmod(0o755)
    return tmp_path


def enter(clone: Path, command: str) -> str:
    path = f"{clone / 'bin'}:/usr/local/bin:/usr/bin:/bin"
    done = subprocess.run(
        ["bash", "-c", command], cwd=clone, env={"PATH": path}, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def in_brief(line: str) -> list[str]:
    """The output that is the same in every run: an example's verdict, and the last line up to the warnings."""
    return line.split()[:4] if line.startswith("rowdot ") else line.partition(";")[0].split()


@pytest.mark.walls
def test_the_walk_ends_in_a_task_that_passes_its_check(clone: Path) -> None:
    new, checks = COMMANDS.findall(WALK)
    (shown,) = OUTPUT.findall(WALK)
    assert new.startswith("pullrank task new rowdot ")
    enter(clone, new)
    files = FILE.findall(WALK)
    assert len(files) == 8
    for name, content in files:
        (clone / name).write_text(content)
    assert [command.split()[0] for command in checks.splitlines()] == ["rm", "pullrank", "pullrank"]
    printed = [in_brief(line) for command in checks.splitlines() for line in enter(clone, command).splitlines()]
    assert [line for line in map(in_brief, shown.splitlines()) if line not in printed] == []
