"""Each lock of `.github/actions` has every package that the commands import, and their dependencies: pip adds none."""

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.competition import SOURCE, Scene, path_of

ROOT = Path(__file__).parent.parent
BLOCKER = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in MISSING:
            raise ModuleNotFoundError(f"{name} is not in the lock", name=name)

sys.meta_path.insert(0, Blocker())
"""
MISSING = {"PIL", "arro3", "discord_webhook", "jinja2", "markdown_it", "numpy", "pygments", "rich", "torch"}
"""Modules that other commands import, and the bot must not."""


def locked(action: str) -> dict[str, str]:
    """Name → line without hashes."""
    text = (ROOT / ".github/actions" / action / "requirements.lock").read_text()
    lines = re.findall(r"^([a-z0-9-]+)(==[^\\\n]+)", text, re.MULTILINE)
    assert text.count("--hash=sha256:") >= len(lines)
    return dict(lines)


def needed(requirements: list[Requirement]) -> Iterator[str]:
    """All dependencies of these packages on the machine of the jobs: Linux, CPython 3.12."""
    environment = {"python_version": "3.12", "python_full_version": "3.12.3"}
    seen: set[str] = set()
    while requirements:
        one = requirements.pop()
        key = str(one)
        extras = one.extras or {""}
        if key in seen or (one.marker and not any(one.marker.evaluate(environment | {"extra": ""}) for _ in extras)):
            continue
        seen.add(key)
        yield canonicalize_name(one.name)
        for further in map(Requirement, requires(one.name) or ()):
            if any(not further.marker or further.marker.evaluate(environment | {"extra": extra}) for extra in extras):
                further.marker = None
                requirements.append(further)


@pytest.mark.parametrize(("action", "left_out"), [("bot", {"rich"}), ("hosted", set())])
def test_a_lock_contains_exactly_the_packages_it_needs(action: str, left_out: set[str]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras, wanted = project["optional-dependencies"], list(project["dependencies"])
    wanted += [line for line in extras[action] if not line.startswith("pullrank[")] + extras["bot"]
    found = [one for one in map(Requirement, wanted) if one.name not in left_out]
    # A lock for all Pythons also has what only older ones need.
    assert set(locked(action)) == set(needed(found))


def test_both_locks_hold_the_same_versions() -> None:
    bot, hosted = locked("bot"), locked("hosted")
    assert bot.items() <= hosted.items() and len(bot) < len(hosted)


class FreshProcesses(Scene):
    """Runs each command in a new Python that has only the bot's packages."""

    def call(self, *arguments: str) -> int:
        blocker = self.folder / "blocker"
        blocker.mkdir(exist_ok=True)
        (blocker / "sitecustomize.py").write_text(BLOCKER.replace("MISSING", repr(MISSING)))
        environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(blocker), str(ROOT)])}
        command = [sys.executable, "-m", "scripts.cli", *arguments]
        done = subprocess.run(command, cwd=self.root, env=environment, capture_output=True, text=True, check=False)
        assert "not in the lock" not in done.stderr, done.stderr
        self.said = done.stderr
        return done.returncode


def test_the_bots_commands_need_only_packages_in_its_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = FreshProcesses(tmp_path, monkeypatch)
    with scene.server:
        pull = scene.world.open_pull(scene.alice, {path_of("alice"): SOURCE})
        scene.intake()
        (run,) = scene.waiting()
        assert scene.resolve(run) == 0
        scene.judge(run, scene.honest())
        assert scene.report(run) == 0
        scene.world.finish_run(run, "success")
        assert scene.reconcile() == 0
        # And a message for people.
        monkeypatch.delenv("GITHUB_TOKEN")
        assert scene.call("ci", "intake") == 2
        code = "import scripts.bot.check.check_tasks, scripts.bot.reconcile.foreign_pushes"
        checked = subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path / "blocker"), str(ROOT)])},
            check=False,
        )
        assert checked.returncode == 0
    assert pull.merged_at
