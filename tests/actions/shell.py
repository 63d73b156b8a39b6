"""The shell of a step: bash as GitHub calls it, the files for outputs and variables, and stand-ins in PATH.

    python, python3    this environment's: `-m venv` makes a folder with the same Python, `-m pip install` is only noted,
                       our own modules run in a fork of the warm Python, all else in a new process
    pip, sudo          only noted

The file `noted` has a line with the arguments of each call.
"""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from tests.actions.warm import WarmPython

TIMEOUT_S = 180
# Without `shell:`, GitHub gives bash no pipefail.
_CALLS = {"": ["bash", "-e"], "bash": ["bash", "--noprofile", "--norc", "-eo", "pipefail"]}
_FILES = {"GITHUB_ENV": "env", "GITHUB_OUTPUT": "output", "GITHUB_PATH": "path", "GITHUB_STEP_SUMMARY": "summary"}

_PYTHON = """#!/bin/bash
here=$(cd "$(dirname "$(realpath "${BASH_SOURCE[0]}")")" && pwd)
case "$1 $2" in
    "-m pip") if [ "$3" = wheel ]; then exec EXECUTABLE "$@"; else echo "$*" >> "$here/noted"; fi ;;
    "-m venv") mkdir -p "$3/bin" && ln -s "$here"/{pip,python,python3} "$3/bin/" ;;
    "-m scripts."*)
        exec 9<>/dev/tcp/127.0.0.1/PORT
        (echo "$$" >&9) # a subshell: the warm Python takes over this shell's own files
        read -r -u 9 code
        exit "$code" ;;
    *) exec EXECUTABLE "$@" ;;
esac
"""
_NOTED = """#!/bin/bash
echo "${0##*/} $*" >> "$(dirname "$(realpath "${BASH_SOURCE[0]}")")/noted"
"""


class StepFailed(Exception):
    """A step ended with a status other than 0, or an action gave up."""


@dataclass(frozen=True, kw_only=True)
class Told:
    """What a step wrote to the files that GitHub gave it."""

    log: str = ""
    outputs: dict[str, str] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    path: tuple[str, ...] = ()
    summary: str = ""


def write_stand_ins(folder: Path, warm: WarmPython) -> None:
    """Write them to a folder that comes first in PATH."""
    folder.mkdir(parents=True)
    python = _PYTHON.replace("PORT", str(warm.port)).replace("EXECUTABLE", sys.executable)
    for names, text in {("python", "python3"): python, ("pip", "sudo"): _NOTED}.items():
        for name in names:
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)


def run_script(script: str, shell: str, environment: dict[str, str], workspace: Path, temp: Path) -> Told:
    """Run a step's script.

    Raises:
        StepFailed: with the end of its log.
    """
    file = temp / "step.sh"
    file.write_text(script)
    told = {variable: temp / name for variable, name in _FILES.items()}
    for each in told.values():
        each.write_text("")
    done = subprocess.run(
        [*_CALLS[shell], str(file)],
        cwd=workspace,
        env=environment | {variable: str(path) for variable, path in told.items()},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=TIMEOUT_S,
        check=False,
    )
    log = done.stdout.decode(errors="replace")
    if done.returncode:
        raise StepFailed(f"{log}\nProcess completed with exit code {done.returncode}.")
    return Told(
        log=log,
        outputs=read_pairs(told["GITHUB_OUTPUT"].read_text()),
        env=read_pairs(told["GITHUB_ENV"].read_text()),
        path=tuple(told["GITHUB_PATH"].read_text().split()),
        summary=told["GITHUB_STEP_SUMMARY"].read_text(),
    )


def read_pairs(text: str) -> dict[str, str]:
    """`name=value` lines, and values of several lines: `name<<END`, lines, `END`."""
    pairs, lines = {}, iter(text.splitlines())
    for line in lines:
        if heredoc := re.fullmatch(r"([^=<]+)<<(.+)", line):
            value = []
            while (next_line := next(lines)) != heredoc[2]:
                value.append(next_line)
            pairs[heredoc[1]] = "\n".join(value)
        elif line:
            name, equals, value_text = line.partition("=")
            if not equals:
                raise StepFailed(f"Invalid format '{line}'")
            pairs[name] = value_text
    return pairs
