"""PullRank installed from a competition's repository, as with `uv tool install` and pipx, works without a clone."""

import os
import shutil
import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FILES = ("harness", "scripts", "tasks/vectoradd", ".github/pullrank.yml", "AGENTS.md", "README.md", "LICENSE")
BUILD = ("pyproject.toml", "setup.py")
COMMANDS = ("init", "task", "judge_file", "duel", "submit", "board", "doctor", "verify")
"""The modules of the commands for participants."""
HOSTED = {"arro3", "discord_webhook", "jinja2", "PIL"}
"""Packages of the extra `hosted` that `compete` lacks."""


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder where pip has installed PullRank, without dependencies, from the git repository acme/kernels."""
    folder = tmp_path_factory.mktemp("installed")
    repository = folder / "acme" / "kernels"
    for name in (*FILES, *BUILD):
        (repository / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, repository / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copyfile(ROOT / name, repository / name)
    git(repository, "init", "--quiet", "--initial-branch=main")
    git(repository, "add", "--all")
    git(repository, "-c", "user.name=acme", "-c", "user.email=acme@example.org", "commit", "--quiet", "--message=All")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    run([*pip, "--target", str(folder / "packages"), f"git+file://{repository}"], folder)
    return folder / "packages"


def git(folder: Path, *arguments: str) -> None:
    run(["git", *arguments], folder)


def run(command: list[str], folder: Path, **variables: str) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    environment = {key: value for key, value in os.environ.items() if key != "GITHUB_REPOSITORY"} | variables
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=200
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def pullrank(packages: Path, folder: Path, *arguments: str) -> str:
    return run([sys.executable, "-m", "scripts.cli", *arguments], folder, PYTHONPATH=str(packages))


def build_wheel(repository: Path, folder: Path) -> None:
    code = f"from setuptools.build_meta import build_wheel; build_wheel({str(folder)!r})"
    run([sys.executable, "-c", code], repository)


@pytest.mark.walls
def test_a_participant_gets_a_verdict_without_a_clone(packages: Path, tmp_path: Path) -> None:
    assert "vectoradd" in pullrank(packages, tmp_path, "tasks")
    pullrank(packages, tmp_path, "init", "vectoradd")
    assert (tmp_path / "vectoradd" / "AGENTS.md").read_bytes() == (ROOT / "AGENTS.md").read_bytes()
    assert "accepted" in pullrank(packages, tmp_path / "vectoradd", "test", "submission.py")


def test_an_installed_command_knows_the_repository_that_it_came_from(packages: Path, tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "remote", "add", "origin", "https://github.com/ada/thesis")
    code = "from scripts.github.access import require_repository as find; print(find(), find('bob/other'))"
    assert run([sys.executable, "-c", code], tmp_path, PYTHONPATH=str(packages)) == "acme/kernels bob/other\n"
    code = code.replace("find()", "find(for_maintainers=True)")
    assert run([sys.executable, "-c", code], tmp_path, PYTHONPATH=str(packages)) == "ada/thesis bob/other\n"


def test_a_wheel_of_a_release_knows_the_repository_that_it_came_from(packages: Path, tmp_path: Path) -> None:
    releases = tmp_path / "acme/kernels/releases/download/wheel"
    build_wheel(packages.parent / "acme/kernels", releases)
    (wheel,) = releases.iterdir()
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever).start()
        address = f"http://127.0.0.1:{server.server_port}/{wheel.relative_to(tmp_path)}"
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(tmp_path / "packages")]
        run([*pip, f"pullrank[bot] @ {address}"], tmp_path, no_proxy="127.0.0.1")
        server.shutdown()
    code = "from scripts.github.access import require_repository as find; print(find())"
    assert run([sys.executable, "-c", code], tmp_path, PYTHONPATH=str(tmp_path / "packages")) == "acme/kernels\n"
    assert wheel.name in (ROOT / "site/pages/participants-commands.md").read_text()


def test_a_command_that_needs_a_clone_says_so(packages: Path, tmp_path: Path) -> None:
    for command in (["demo"], ["site", "build"], ["task", "new", "mine"], ["task", "archive", "vectoradd"]):
        done = subprocess.run(
            [sys.executable, "-m", "scripts.cli", *command], cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(packages)},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 2 and "needs a clone of the competition's repository" in done.stderr


def test_an_installed_copy_is_updated_by_installing_it_again(packages: Path, tmp_path: Path) -> None:
    code = "from scripts.competition.repository import UPDATE; print(UPDATE)"
    assert "uv tool upgrade --reinstall" in run([sys.executable, "-c", code], tmp_path, PYTHONPATH=str(packages))
    assert run([sys.executable, "-c", code], ROOT) == "`git pull`\n"


def test_a_second_build_in_the_same_folder_succeeds(packages: Path, tmp_path: Path) -> None:
    repository = packages.parent / "acme" / "kernels"
    for number in (1, 2):
        build_wheel(repository, tmp_path / str(number))
        assert [path.suffix for path in (tmp_path / str(number)).iterdir()] == [".whl"]


def test_the_commands_of_participants_need_only_the_extra_for_participants() -> None:
    modules = ", ".join(f"scripts.commands.{name}" for name in COMMANDS)
    code = f"import sys, {modules}; print(sorted({HOSTED} & sys.modules.keys()))"
    assert run([sys.executable, "-c", code], ROOT) == "[]\n"
