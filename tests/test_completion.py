"""Completion, as the documents say to switch it on: click's own, with commands that are loaded when they are called."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.cli import COMMANDS

ROOT = Path(__file__).parent.parent
GUIDE = (ROOT / "site" / "pages" / "participants.md").read_text()


@pytest.fixture
def program(tmp_path: Path) -> dict[str, str]:
    """An environment in which `pullrank` is this repository's."""
    script = tmp_path / "pullrank"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -m scripts.cli "$@"\n')
    script.chmod(0o755)
    return {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "HOME": str(tmp_path)}


def asked(program: dict[str, str], **environment: str) -> str:
    done = subprocess.run(
        ["pullrank"], env=program | environment, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    return done.stdout


def test_bash_itself_completes_commands_subcommands_and_options(program: dict[str, str]) -> None:
    bash = shutil.which("bash")
    assert bash
    (line,) = re.findall(r"^(eval .*bash_source.*?) +#", GUIDE, re.MULTILINE)
    script = f'{line}\ntry() {{ COMP_WORDS=("$@"); COMP_CWORD=$(($#-1)); COMPREPLY=(); _pullrank_completion pullrank; echo "${{COMPREPLY[*]}}"; }}\n'
    script += "try pullrank be\ntry pullrank task sh\ntry pullrank submit --dr\n"
    done = subprocess.run([bash, "-c", script], env=program, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["benchmark", "show", "--draft"], done.stderr


def test_zsh_and_fish_are_given_every_command_with_its_help(program: dict[str, str]) -> None:
    zsh = asked(program, _PULLRANK_COMPLETE="zsh_complete", COMP_WORDS="pullrank ", COMP_CWORD="1")
    fish = asked(program, _PULLRANK_COMPLETE="fish_complete", COMP_WORDS="pullrank ", COMP_CWORD="")
    for name, (_, sentence) in COMMANDS.items():
        assert f"plain\n{name}\n{sentence.split()[0]}" in zsh
        assert re.search(rf"^plain,{name}\t{sentence.split()[0]}", fish, re.MULTILINE)
    assert "ci" not in zsh.splitlines()


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_guides_line_for_a_shell_gives_a_script(program: dict[str, str], shell: str) -> None:
    assert f"_PULLRANK_COMPLETE={shell}_source pullrank" in GUIDE
    assert "_pullrank_completion" in asked(program, _PULLRANK_COMPLETE=f"{shell}_source")
