"""The page `Keep PullRank up to date`: runs its git commands on a template and a competition, word for word."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.page_text import ROOT

PAGE = (ROOT / "site" / "pages" / "organisers-update.md").read_text()
BLOCKS = re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)
CLOSE, FIRST_TIME, FETCH, MERGE, CHECK, PUSH = BLOCKS
(NEW_CLONE,) = re.findall(r"In a new clone, run `([^`]+)` first", PAGE)

TEMPLATE = {
    "README.md": "# PullRank\n\nA template.\n",
    ".github/pullrank.yml": "title: PullRank\n\ngpus:\n  CPU: {runs_on: ubuntu-24.04}\n\n# Limits.\nmerge: auto\n",
    "harness/judge.py": "METHOD = 1\n",
    "harness/old.py": "OLD = True\n",
    "tasks/rope/task.yml": "title: Rope\n",
    "tasks/vectoradd/task.yml": "title: Vector addition\nlang: py\n\ntests: []\n",
}


def write(folder: Path, files: dict[str, str | None], message: str) -> None:
    """Change files, None deletes one, and commit."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if text is None:
            path.unlink()
        else:
            path.write_text(text)
    enter(folder, f"git add --all && git commit --quiet --message '{message}'")


def enter(folder: Path, commands: str, *, fails: bool = False) -> str:
    done = subprocess.run(["bash", "-ec", commands], cwd=folder, capture_output=True, text=True, check=False)
    assert (done.returncode != 0) is fails, done.stdout + done.stderr
    return done.stdout + done.stderr


class Places:
    """The template, a competition that was made from it, and its clones."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.template, self.origin = folder, folder / "template", folder / "origin.git"
        enter(folder, "git init --quiet --initial-branch main template")
        write(self.template, {"README.md": "# Before the copy\n"}, "Begin")
        write(self.template, TEMPLATE, "A template")
        enter(folder, "git init --quiet --bare --initial-branch main origin.git")
        self.clone = self.new_clone("first")
        # GitHub copies the newest files into one commit, without the history.
        write(self.clone, TEMPLATE, "Initial commit")
        enter(self.clone, "git push --quiet --set-upstream origin HEAD:main")

    def new_clone(self, name: str) -> Path:
        enter(self.folder, f"git clone --quiet origin.git {name}")
        return self.folder / name

    def fetch(self, clone: Path) -> None:
        address = "https://github.com/OWNER/TEMPLATE"
        assert address in FETCH
        enter(clone, FETCH.replace(address, str(self.template)))


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Places:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    (tmp_path / "gitconfig").write_text(
        "[user]\nname = Ada\nemail = ada@example.org\n[init]\ndefaultBranch = main\n[core]\neditor = true\n"
    )
    return Places(tmp_path)


def text(clone: Path, name: str) -> str:
    return (clone / name).read_text()


def test_an_update_brings_the_templates_changes_and_keeps_the_competitions(places: Places) -> None:
    ours = {
        "README.md": "# Kernel cup\n\nWelcome.\n",
        ".github/pullrank.yml": TEMPLATE[".github/pullrank.yml"].replace("PullRank", "Kernel cup"),
        "tasks/rope/task.yml": None,
        "tasks/mine/task.yml": "title: Mine\n",
        "tasks/vectoradd/task.yml": TEMPLATE["tasks/vectoradd/task.yml"].replace(
            "lang: py", "lang: py\ndeadline: 2027"
        ),
    }
    clone = places.clone
    write(clone, ours, "Our competition")
    write(
        places.template,
        {
            "harness/judge.py": "METHOD = 2\n",
            "harness/old.py": None,
            "harness/new.py": "NEW = True\n",
            ".github/pullrank.yml": TEMPLATE[".github/pullrank.yml"].replace("# Limits.", "# The limits."),
            "tasks/vectoradd/task.yml": TEMPLATE["tasks/vectoradd/task.yml"].replace("tests: []", "tests: [{}]"),
        },
        "Method 2",
    )
    enter(clone, FIRST_TIME)
    places.fetch(clone)
    enter(clone, MERGE)
    assert text(clone, "harness/judge.py") == "METHOD = 2\n" and text(clone, "harness/new.py") == "NEW = True\n"
    assert not (clone / "harness/old.py").exists() and not (clone / "tasks/rope/task.yml").exists()
    assert text(clone, "README.md") == ours["README.md"] and text(clone, "tasks/mine/task.yml") == "title: Mine\n"
    settings = text(clone, ".github/pullrank.yml")
    assert settings.startswith("title: Kernel cup\n") and "# The limits." in settings
    assert text(clone, "tasks/vectoradd/task.yml").endswith("lang: py\ndeadline: 2027\n\ntests: [{}]\n")
    assert "Before the copy" not in enter(clone, "git log --patch")
    enter(clone, PUSH)

    # The next one, in a new clone: only what changed since conflicts.
    write(places.template, {"README.md": "# PullRank 3\n", "harness/judge.py": "METHOD = 3\n"}, "Method 3")
    clone = places.new_clone("second")
    enter(clone, NEW_CLONE)
    places.fetch(clone)
    assert "CONFLICT (content): Merge conflict in README.md" in enter(clone, MERGE, fails=True)
    enter(clone, "git checkout --quiet --ours README.md && git add README.md && git merge --continue")
    enter(clone, PUSH)
    assert text(clone, "README.md") == ours["README.md"] and text(clone, "harness/judge.py") == "METHOD = 3\n"
    last = places.new_clone("third")
    assert text(last, "harness/judge.py") == "METHOD = 3\n" and (last / "tasks/mine").is_dir()


def test_a_task_that_the_competition_deleted_and_the_template_changed_is_deleted_by_the_pages_command(
    places: Places,
) -> None:
    clone = places.clone
    write(clone, {"tasks/rope/task.yml": None}, "No rope")
    write(places.template, {"tasks/rope/task.yml": "title: RoPE\n"}, "A better title")
    enter(clone, FIRST_TIME)
    places.fetch(clone)
    assert "tasks/rope/task.yml" in enter(clone, MERGE, fails=True)
    assert "`git rm -r tasks/NAME`" in PAGE
    enter(clone, "git rm -r tasks/rope && git merge --continue")
    assert not (clone / "tasks/rope").exists() and enter(clone, "git status --porcelain") == ""


def test_the_page_knows_how_many_tasks_the_template_has_and_which() -> None:
    tasks = {path.parent.name for path in ROOT.glob("tasks/*/task.yml")}
    assert f"The template has {len(tasks)} tasks" in PAGE
    assert set(CLOSE.split()[3:]) <= tasks


# CI in a competition.


COMPETITION, SHIPPED = "Kernel cup", "PullRank"


@pytest.fixture
def ci(tmp_path: Path) -> Path:
    """A folder with `.ci/run` and one task.  Other commands only note that they are called; `code` ends the check."""
    for name in (".ci/run", ".github/pullrank.yml"):
        (tmp_path / name).parent.mkdir()
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "tasks/mine").mkdir(parents=True)
    (tmp_path / "tasks/mine/task.yml").touch()
    commands = tmp_path / ".venv/bin"
    commands.mkdir(parents=True)
    note = f'echo "$(basename "$0") $@" >> {tmp_path}/calls\n'
    scripts = {
        "dpkg-query": "echo installed\n",
        "make": note,
        "pullrank": note + f'[ "$2" != check ] || exit $(cat {tmp_path}/code)\n',
    }
    for name, script in scripts.items():
        (commands / name).write_text(f"#!/bin/sh\n{script}")
        (commands / name).chmod(0o755)
    (tmp_path / "code").write_text("0")
    return tmp_path


def call(ci: Path, title: str, *, fails: bool = False) -> tuple[set[str], str]:
    """Run it; return what it called, and what it printed."""
    settings = ci / ".github/pullrank.yml"
    settings.write_text(re.sub(r"(?m)^title: .*", f"title: {title}", settings.read_text()))
    said = enter(ci, f"PATH={ci}/.venv/bin:/usr/bin:/bin bash .ci/run", fails=fails)
    return set((ci / "calls").read_text().splitlines()), said


@pytest.mark.parametrize("title", [SHIPPED, COMPETITION, "PullRank 2"])
def test_ci_tests_the_code_of_the_template_and_checks_a_competition(ci: Path, title: str) -> None:
    is_template = title == SHIPPED
    calls, said = call(ci, title)
    assert {"make setup", "make languages", "pullrank task check tasks/mine"} <= calls
    tests = {"make lint", "make test-all", "make faults ARGS=--sample 5"}
    assert tests & calls == (tests if is_template else set())
    assert ("pullrank tasks" in calls) is ("This is a competition" in said) is not is_template


@pytest.mark.parametrize(
    ("title", "code", "fails"),
    [(SHIPPED, 3, True), (COMPETITION, 3, False), (COMPETITION, 1, True), (COMPETITION, 2, True)],
)
def test_only_a_competition_may_have_tasks_that_cannot_be_judged_here(
    ci: Path, title: str, code: int, fails: bool
) -> None:
    (ci / "code").write_text(str(code))
    calls, _ = call(ci, title, fails=fails)
    assert "pullrank task check tasks/mine" in calls


def test_ci_of_a_competition_without_tasks_succeeds(ci: Path) -> None:
    shutil.rmtree(ci / "tasks/mine")
    calls, _ = call(ci, COMPETITION)
    assert "pullrank tasks" in calls and not any("check" in one for one in calls)
