"""The walk of tasks/README.md, from nothing to a checked task, typed word for word as it stands there."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

WALK = (ROOT / "tasks" / "README.md").read_text().partition("### A walk\n")[2].partition("\n## ")[0]
FILE = re.compile(r"`(tasks/rowdot/[^`\n]+)`[^`\n]*:\n\n```\w+\n(.*?)```", re.DOTALL)
CONSOLE = re.compile(r"```console\n(.*?)```", re.DOTALL)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """What somebody has who has cloned the repository and made its environment."""
    for name in ("harness", "scripts"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    command = tmp_path / "bin" / "pullrank"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path} exec {sys.executable} -m scripts.cli "$@"\n')
    command.chmod(0o755)
    return tmp_path


def typed(block: str) -> list[tuple[str, list[str]]]:
    """The commands of a console's block, each with the lines that it is shown to print."""
    parts = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    found = []
    for part in parts:
        lines = part.splitlines()
        length = next(number for number, line in enumerate(lines, 1) if not line.endswith("\\"))
        found.append(("\n".join(lines[:length]), lines[length:]))
    return found


def enter(clone: Path, command: str) -> str:
    path = f"{clone / 'bin'}:/usr/local/bin:/usr/bin:/bin"
    done = subprocess.run(
        ["bash", "-c", command], cwd=clone, env={"PATH": path}, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def in_brief(line: str) -> list[str]:
    """What is the same each time: of an example what it got, of the last line what comes before the warnings."""
    return line.split()[:4] if line.startswith("rowdot ") else line.partition(";")[0].split()


@pytest.mark.walls
def test_the_walk_ends_in_a_task_that_passes_its_check(clone: Path) -> None:
    blocks = [typed(block) for block in CONSOLE.findall(WALK)]
    (((new, _),), checks) = blocks
    assert new.startswith("pullrank task new rowdot ")
    enter(clone, new)
    files = FILE.findall(WALK)
    assert len(files) == 8
    for name, content in files:
        (clone / name).write_text(content)
    assert [command.split()[0] for command, _ in checks] == ["rm", "pullrank", "pullrank"]
    for command, shown in checks:
        printed = [in_brief(line) for line in enter(clone, command).splitlines()]
        assert [line for line in map(in_brief, shown) if line not in printed] == [], command
