"""Shell completion, switched on as the documents say: click's own, with commands that are loaded when called."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from scripts.cli import COMMANDS, INTERRUPTED, cli
from tests.terminal import Terminal

ROOT = Path(__file__).parent.parent
GUIDE = (ROOT / "site" / "pages" / "participants-commands.md").read_text()


@pytest.fixture
def program(tmp_path: Path) -> dict[str, str]:
    """An environment where `pullrank` is this repository's."""
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
    script += "try pullrank be\ntry pullrank task sh\ntry pullrank submit --dr\ntry pullrank board vec\n"
    done = subprocess.run([bash, "-c", script], env=program, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["benchmark", "show", "--draft", "vectoradd"], done.stderr


LINES = {
    "pullrank be": "benchmark",
    "pullrank task sh": "show",
    "pullrank submit --dr": "--draft",
    "pullrank board vec": "vectoradd",
}
"""The text before Tab, and the completed word."""


def guides_line(shell: str) -> str:
    (line,) = re.findall(rf"^(.*{shell}_source.*?) +#", GUIDE, re.MULTILINE)
    return str(line)


@pytest.mark.skipif(not shutil.which("fish"), reason="no fish on this machine")
def test_fish_itself_completes_commands_subcommands_and_options(program: dict[str, str]) -> None:
    script = "\n".join([guides_line("fish"), *(f"complete --do-complete '{line}'" for line in LINES)])
    done = subprocess.run(["fish", "-c", script], env=program, cwd=ROOT, capture_output=True, text=True, check=True)
    assert [line.split("\t")[0] for line in done.stdout.splitlines()] == list(LINES.values()), done.stderr


@pytest.mark.skipif(not shutil.which("zsh"), reason="no zsh on this machine")
def test_zsh_itself_completes_commands_subcommands_and_options(program: dict[str, str]) -> None:
    """With the Tab key in a terminal: zsh completes nowhere else."""
    Path(program["HOME"], ".zshrc").write_text(f"PS1='ready> '\n{guides_line('zsh')}\n")
    terminal = Terminal(["zsh", "-d", "-i"], columns=120, folder=ROOT, environment=program)
    terminal.until("ready>")
    for line, word in LINES.items():
        terminal.press(line.encode() + b"\t")
        terminal.until(" ".join([*line.split()[:-1], word]))
        terminal.press(b"\x15")  # Ctrl-U: the line is empty again
    terminal.press(b"exit\n")
    terminal.end()
    assert "not found" not in terminal.text


def test_help_shows_the_completion_line_and_the_exit_code_of_ctrl_c(program: dict[str, str]) -> None:
    done = subprocess.run(["pullrank", "--help"], env=program, cwd=ROOT, capture_output=True, text=True, check=True)
    shown = " ".join(done.stdout.split())
    (line,) = re.findall(r"^(eval .*bash_source.*?) +#", GUIDE, re.MULTILINE)
    assert line in shown and f"{INTERRUPTED} interrupted" in shown


def test_zsh_and_fish_get_every_command_with_its_help(program: dict[str, str]) -> None:
    zsh = asked(program, _PULLRANK_COMPLETE="zsh_complete", COMP_WORDS="pullrank ", COMP_CWORD="1")
    fish = asked(program, _PULLRANK_COMPLETE="fish_complete", COMP_WORDS="pullrank ", COMP_CWORD="")
    for name, (_, sentence) in COMMANDS.items():
        assert f"plain\n{name}\n{sentence.split()[0]}" in zsh
        assert re.search(rf"^plain,{name}\t{sentence.split()[0]}", fish, re.MULTILINE)
    assert "ci" not in zsh.splitlines()


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_completion_line_in_the_guide_prints_a_script(program: dict[str, str], shell: str) -> None:
    assert f"_PULLRANK_COMPLETE={shell}_source pullrank" in GUIDE
    assert "_pullrank_completion" in asked(program, _PULLRANK_COMPLETE=f"{shell}_source")


# Names.


def offered(line: str) -> list[str]:
    """The completions for Tab at the end of a line."""
    *words, begin = line.split(" ")
    found = ShellComplete(cli, {}, "pullrank", "_PULLRANK_COMPLETE").get_completions(words, begin)
    return [item.value for item in found]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with three tasks, two of them odd, and three authors, one hostile."""
    tasks = {
        "sort": "gpus: [CPU, H100]",
        "scan": "gpus: [B200]",
        "torn": "gpus: [",
        "flat": "1",
        "odd": "gpus: [1, 'a b']",
    }
    for name, text in tasks.items():
        (tmp_path / "tasks" / name).mkdir(parents=True)
        (tmp_path / "tasks" / name / "task.yml").write_text(text)
    for login in ("ada", "Alan", "$(touch x)", "a\nb"):
        (tmp_path / "submissions" / "sort" / login).mkdir(parents=True)
    (tmp_path / "ledger/judgements/sort/CPU/grace").mkdir(parents=True)
    for name, value in {"ROOT": tmp_path, "TASKS": tmp_path / "tasks", "LEDGER": tmp_path / "ledger"}.items():
        monkeypatch.setattr(f"scripts.competition.completion.{name}", value)
    return tmp_path


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("board HERE s", ["scan", "sort"]),
        ("init HERE so", ["sort"]),
        ("task show HERE ", ["flat", "odd", "scan", "sort", "torn"]),
        ("board HERE sort --gpu ", ["CPU", "H100"]),
        ("board HERE --gpu ", ["B200", "CPU", "H100"]),
        ("history HERE torn --gpu ", []),
        ("history HERE ../sort --gpu h", ["H100"]),
        ("submit kernel.py --task sort --gpu h", ["H100"]),
        ("test kernel.py --task sc", ["scan"]),
        ("mine A", ["Alan", "ada"]),
        ("compare ada ", ["Alan", "ada", "grace"]),
        ("history sort --login g", ["grace"]),
        ("board --tasks /nowhere ", []),
    ],
)
def test_completion_offers_the_names_found_in_folders(place: Path, line: str, names: list[str]) -> None:
    assert offered(line.replace("HERE", f"--tasks {place / 'tasks'}")) == names


def test_completion_offers_only_boards_with_a_machine_if_one_is_needed(place: Path) -> None:
    (place / ".github").mkdir()
    (place / ".github/pullrank.yml").write_text("gpus: {H100: {runs_on: h100}, L4: {runs_on: l4}}")
    for line in ("board sort --gpu ", "submit kernel.py --task sort --gpu "):
        assert offered(line) == ["H100"]
    assert offered("test kernel.py --task sort --gpu ") == ["CPU", "H100"]
    (place / ".github/pullrank.yml").write_text("gpus: [")
    assert offered("board sort --gpu ") == ["CPU", "H100"]


def test_completion_outside_a_repository_offers_nothing_and_stays_silent(
    place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in ("tasks", "submissions", "ledger"):
        shutil.rmtree(place / name)
    (place / "tasks").write_text("a file")
    for line in ("board HERE ", "board HERE sort --gpu ", "mine ", "compare ada ", "test kernel.py --task "):
        assert offered(line.replace("HERE", f"--tasks {place / 'tasks'}")) == []
    assert capfd.readouterr() == ("", "")
