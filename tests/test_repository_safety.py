"""The repository's own safety: CI never touches submissions, and workflows have few rights.

A copy of the repository gets a `submissions/` full of files that tools run, import or obey.  Each of them writes a
canary.  The real tools of CI run on that copy, and the canary must not appear.
"""

import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from scripts.ledger.ledger import FOLDERS

ROOT = Path(__file__).parent.parent
GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
ACTIONS = sorted((GITHUB / "actions").glob("*/action.yml"))


# Files under submissions/.


def hostile_files(canary: Path) -> dict[str, str]:
    """Files under `submissions/`, by path; for each, there is a tool that would obey it."""
    bite = f"open({str(canary)!r}, 'a').write(__file__ + '\\n')\n"
    shell = f"echo bitten >> {canary}\n"
    pytest_ini = "[pytest]\naddopts = -p plugin\npython_files = *.py\n"
    pyproject = "[build-system]\nrequires = []\nbuild-backend = 'setup'\nbackend-path = ['.']\n"
    pyproject += f"[tool.pytest.ini_options]\naddopts = '-p plugin'\n[tool.ruff]\nextend = '{canary}'\n"
    workflow = "on: pull_request_target\njobs:\n  x:\n    runs-on: x\n    steps:\n      - uses: evil/x@main\n"
    workflow += "      - run: echo ${{ github.event.pull_request.title }}\n"
    inside = {
        **{
            f"{name}.py": bite for name in ("conftest", "test_x", "x_test", "setup", "plugin", "__init__", "submission")
        },
        **{f"{name}.py": bite for name in ("sitecustomize", "usercustomize", "noxfile", "tasks", "torch", "harness")},
        "evil.pth": f"import builtins; {bite}",
        "pytest.ini": pytest_ini,
        "tox.ini": pytest_ini,
        "setup.cfg": pytest_ini.replace("pytest", "tool:pytest"),
        "pyproject.toml": pyproject,
        "ruff.toml": "select = ['ALL']\nunknown-key = 1\n",
        ".ruff.toml": "select = ['ALL']\n",
        "mypy.ini": f"[mypy]\nplugins = {canary.parent}/plugin.py\n",
        "zizmor.yml": "rules: nonsense\n",
        "Makefile": f"lint test clean:\n\t{shell}",
        "GNUmakefile": f"lint test clean:\n\t{shell}",
        ".envrc": shell,
        ".pre-commit-config.yaml": "repos: nonsense\n",
        ".github/workflows/evil.yml": workflow,
        ".github/actions/evil/action.yml": "runs: {using: composite, steps: [{run: x, shell: bash}]}\n",
        ".github/dependabot.yml": "version: 1\n",
        "tests/test_y.py": bite,
        "broken.py": "def (:\n",
        "-rf": bite,
        "-p plugin.py": bite,
        "--collect-only; touch x.py": bite,
        "$(touch x).py": bite,
        "test_a\nb.py": bite,
        "x.js": "throw 1\n",
    }
    everywhere = ("submissions/evil/x", "submissions/evil", "submissions", "submissions/vectoradd/mallory")
    return {f"{folder}/{name}": text for folder in everywhere for name, text in inside.items()}


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A copy of the repository with hostile files, and the canary that they would write."""
    root = tmp_path_factory.mktemp("hostile") / "repository"
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).is_file():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, root / name)
    canary = root.parent / "canary"
    for name, text in hostile_files(canary).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root, canary


def run(root: Path, *command: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a tool as CI does, in the root of the repository."""
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)


def tool(name: str) -> Path:
    return Path(sys.executable).parent / name


def test_the_canary_appears_without_our_settings(hostile: tuple[Path, Path], tmp_path: Path) -> None:
    root, _ = hostile
    canary = tmp_path / "canary"
    copy = tmp_path / "x"
    copy.mkdir()
    (copy / "test_x.py").write_text(hostile_files(canary)["submissions/evil/x/test_x.py"])
    run(root, sys.executable, "-m", "pytest", "--collect-only", "-c", "/dev/null", "--rootdir", str(copy), str(copy))
    assert canary.read_text() == f"{copy}/test_x.py\n"


def test_pytest_collects_nothing_from_a_submission(hostile: tuple[Path, Path]) -> None:
    root, canary = hostile
    for path in root.glob("tests/test_*.py"):  # importing all of them takes half a minute, and would show nothing more
        if path.name != Path(__file__).name:
            path.unlink()
    done = run(root, sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "tests/test_repository_safety.py::" in done.stdout

    assert not [line for line in done.stdout.splitlines() if line.startswith(("submissions", "tasks"))]
    assert not canary.exists()


def test_ruff_checks_nothing_from_a_submission(hostile: tuple[Path, Path]) -> None:
    root, canary = hostile
    looked_at = run(root, tool("ruff"), "check", "--show-files", ".")
    assert looked_at.returncode == 0 and "scripts/cli.py" in looked_at.stdout, looked_at.stderr
    assert "/submissions/" not in looked_at.stdout
    assert not canary.exists()


def test_mypy_reads_nothing_from_a_submission(hostile: tuple[Path, Path]) -> None:
    root, canary = hostile
    asked = "from mypy.main import process_options; print(*(one.path for one in process_options([])[0]), sep='\\n')"
    done = run(root, sys.executable, "-I", "-c", asked)
    assert "scripts/cli.py" in done.stdout.splitlines(), done.stderr
    assert not [
        path for path in done.stdout.splitlines() if not path.startswith(("benchmarks/", "harness/", "scripts/"))
    ]
    assert not canary.exists()


def test_zizmor_checks_only_our_workflows(hostile: tuple[Path, Path]) -> None:
    root, canary = hostile
    done = run(root, tool("zizmor"), "--offline", "--quiet", "--strict-collection", ".github")
    assert done.returncode == 0, done.stdout + done.stderr
    assert not canary.exists()


def test_make_runs_nothing_from_a_submission(hostile: tuple[Path, Path]) -> None:
    root, canary = hostile
    for target in ("lint", "test", "clean"):
        done = run(root, "make", "--dry-run", target)
        assert done.returncode == 0 and "submissions" not in done.stdout and "bitten" not in done.stdout
    assert run(root, "make", "clean").returncode == 0
    assert (root / "submissions/evil/x/-rf").exists() and not canary.exists()


def test_the_package_contains_nothing_from_a_submission(hostile: tuple[Path, Path], tmp_path: Path) -> None:
    root, canary = hostile
    command = (sys.executable, "-I", "-c", "import setuptools; setuptools.setup()")
    done = run(
        root, *command, "--quiet", "build", "--build-base", str(tmp_path / "b"), "--build-lib", str(tmp_path / "l")
    )
    assert done.returncode == 0, done.stderr
    assert {path.name for path in (tmp_path / "l").iterdir()} == {"harness", "scripts"}
    assert not canary.exists()


def test_the_site_build_runs_nothing_from_a_submission(hostile: tuple[Path, Path], tmp_path: Path) -> None:
    root, canary = hostile
    (tmp_path / "ledger").mkdir()
    command = (sys.executable, "-m", "scripts.cli", "site", "build", "--ledger", str(tmp_path / "ledger"))
    done = run(root, *command, "--out", str(tmp_path / "site"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "site/index.html").exists()
    assert not canary.exists()


def test_no_workflow_script_names_or_globs_submissions() -> None:
    lines = [
        line for path in (*WORKFLOWS, *ACTIONS) for step in steps(path) for line in step.get("run", "").splitlines()
    ]
    assert lines and not [line for line in lines if "submissions" in line or "*" in line or "git checkout" in line]


# What the workflows may do.


def load(path: Path) -> dict[str, Any]:
    # YAML reads the key `on` as true.
    return {"on" if key is True else key: value for key, value in yaml.safe_load(path.read_text()).items()}


def jobs(path: Path) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = load(path).get("jobs", {})
    return found


def steps(path: Path) -> list[dict[str, Any]]:
    made = load(path)
    return made["runs"]["steps"] if "runs" in made else [step for job in jobs(path).values() for step in job["steps"]]


each_workflow = pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
each_file = pytest.mark.parametrize("path", [*WORKFLOWS, *ACTIONS], ids=lambda path: path.parent.name + "/" + path.name)


@each_file
def test_every_action_is_pinned_by_full_hash_and_names_its_version(path: Path) -> None:
    used = re.findall(r"^ *(?:- )?uses: (.*)$", path.read_text(), re.MULTILINE)
    assert len(used) == sum("uses" in step for step in steps(path))
    foreign = [one for one in used if not one.startswith("$/.github/actions/")]
    assert all(re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40} # v[0-9]+\.[0-9]+\.[0-9]+", one) for one in foreign), foreign


def test_every_action_has_the_same_hash_everywhere() -> None:
    used = {step["uses"] for path in (*WORKFLOWS, *ACTIONS) for step in steps(path) if "@" in step.get("uses", "")}
    assert not [name for name, times in Counter(one.partition("@")[0] for one in used).items() if times > 1]


@each_workflow
def test_workflows_grant_permissions_only_job_by_job(path: Path) -> None:
    assert load(path)["permissions"] == {}
    assert all(isinstance(job["permissions"], dict) for job in jobs(path).values())
    granted = {f"{scope}: {level}" for job in jobs(path).values() for scope, level in job["permissions"].items()}
    assert not granted & {"id-token: write", "packages: write", "attestations: write"} or path.name == "publish.yml"


@each_workflow
def test_every_job_has_a_timeout_and_no_cache(path: Path) -> None:
    for name, job in jobs(path).items():
        limit = job["timeout-minutes"]
        assert limit == "${{ fromJSON(needs.resolve.outputs.minutes) }}" or 1 <= limit <= 60, name
        assert job["cache-mode"] == "none", name


@each_file
def test_no_workflow_script_contains_an_expression(path: Path) -> None:
    assert not [step["run"] for step in steps(path) if "${{" in step.get("run", "")]


@each_workflow
def test_no_workflow_starts_from_or_checks_out_a_forks_code(path: Path) -> None:
    triggers = load(path)["on"]
    assert "pull_request" not in triggers and "workflow_run" not in triggers
    assert ("pull_request_target" in triggers) == (path.name == "intake.yml")
    for step in steps(path):
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False
            assert step["with"].get("ref") in (None, "${{ github.event.repository.default_branch }}")
            assert "repository" not in step["with"]


@pytest.mark.parametrize(("file", "name"), [("evaluate.yml", "judge"), ("check.yml", "check")])
def test_jobs_that_run_strangers_code_have_no_permissions_or_secrets(file: str, name: str) -> None:
    job = jobs(GITHUB / "workflows" / file)[name]
    assert job["permissions"] == {} and not {"environment", "secrets", "env", "services", "container"} & job.keys()
    assert {step.get("uses", "").partition("@")[0] for step in job["steps"]} == {
        "", "actions/download-artifact", "actions/upload-artifact",
    }  # fmt: skip
    told = json.dumps([step.get("env", {}) for step in job["steps"]])
    assert "token" not in told.lower() and "secrets" not in told


def test_only_five_workflows_read_secrets() -> None:
    readers = [path for path in WORKFLOWS if re.search(r"secrets\.|secrets:\s*inherit|toJSON\(", path.read_text())]
    assert [path.name for path in readers] == [
        "evaluate.yml",
        "intake.yml",
        "publish.yml",
        "reconcile.yml",
        "review.yml",
    ]


@pytest.mark.parametrize(
    ("file", "name", "more"),
    [
        ("intake.yml", "intake", {}),
        ("evaluate.yml", "resolve", {}),
        ("evaluate.yml", "report", {"workflows": "write"}),
        ("reconcile.yml", "reconcile", {"workflows": "write"}),
    ],
)
def test_an_apps_key_reaches_only_the_token_action_with_the_jobs_permissions(
    file: str, name: str, more: dict[str, str]
) -> None:
    job = jobs(GITHUB / "workflows" / file)[name]
    assert job["environment"] == {"name": "bot", "deployment": False}
    (step,) = [step for step in job["steps"] if "secrets." in json.dumps(step)]
    assert step == job["steps"][0] and step["if"] == "vars.PULLRANK_APP != ''"
    assert step["uses"].startswith("actions/create-github-app-token@")
    asked = {key.removeprefix("permission-"): level for key, level in step["with"].items() if "permission-" in key}
    assert asked == job["permissions"] | more
    assert {key for key in step["with"] if "permission-" not in key} == {"client-id", "private-key"}


def test_only_four_jobs_use_the_bot_environment() -> None:
    named = [
        (path.name, name)
        for path in WORKFLOWS
        for name, job in jobs(path).items()
        if "bot" in str(job.get("environment"))
    ]
    assert named == [
        ("evaluate.yml", "resolve"),
        ("evaluate.yml", "report"),
        ("intake.yml", "intake"),
        ("reconcile.yml", "reconcile"),
    ]


def test_the_readers_key_reaches_only_one_step_of_a_job_that_writes_nothing_but_checks() -> None:
    (job,) = jobs(GITHUB / "workflows" / "review.yml").values()
    assert job["environment"] == {"name": "review", "deployment": False}
    assert job["permissions"] == {"checks": "write", "contents": "read"}
    assert [step for step in job["steps"] if "secrets." in json.dumps(step)] == [job["steps"][-1]]
    assert job["steps"][-1]["env"]["READER_KEY"] == "${{ secrets.READER_KEY }}"
    assert not [path.name for path in WORKFLOWS if path.name != "review.yml" and "READER_KEY" in path.read_text()]


def test_webhook_secrets_reach_only_one_step_of_the_announce_job() -> None:
    """`announce` runs no code of strangers, and only `main` may use its environment."""
    found = jobs(GITHUB / "workflows" / "publish.yml")
    job = found["announce"]
    assert job["environment"] == "announce" and job["permissions"] == {"contents": "write"}
    assert [step for step in job["steps"] if "secrets." in json.dumps(step)] == [job["steps"][-1]]
    assert not [name for name, other in found.items() if name != "announce" and "secrets." in json.dumps(other)]
    assert job["needs"] == "deploy" and not [other for other in found.values() if "announce" in other.get("needs", [])]


IGNORED = {"intake.yml": 1}
"""The number of zizmor's findings that each file ignores; each has a reason there."""


def test_every_ignored_zizmor_finding_is_counted_and_has_a_reason() -> None:
    found = Counter[str]()
    for path in sorted(GITHUB.rglob("*.y*ml")):
        for line in path.read_text().splitlines():
            if "zizmor:" in line:
                assert re.search(r"# zizmor: ignore\[[a-z-]+\] \w+.{20}", line), f"{path.name}: {line}"
                found[path.name] += 1
    assert found == IGNORED
    assert not [path for path in (GITHUB, ROOT) for name in ("zizmor.yml", "zizmor.yaml") if (path / name).exists()]


# Forms, owners, updates.

SCHEMAS = {
    "vendor.github-workflows": WORKFLOWS,
    "vendor.github-actions": ACTIONS,
    "vendor.dependabot": [GITHUB / "dependabot.yml"],
    "vendor.github-issue-config": [GITHUB / "ISSUE_TEMPLATE/config.yml"],
    "vendor.github-issue-forms": sorted(set((GITHUB / "ISSUE_TEMPLATE").glob("*.yml")) - {GITHUB / "ISSUE_TEMPLATE/config.yml"}),
}  # fmt: skip


@pytest.mark.parametrize("schema", SCHEMAS)
def test_github_configuration_files_match_their_schemas(schema: str) -> None:
    assert SCHEMAS[schema]
    done = run(ROOT, sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, *SCHEMAS[schema])
    assert done.returncode == 0, done.stdout


def owners() -> dict[str, list[str]]:
    """The effective lines of CODEOWNERS: path → its owners."""
    lines = [line.partition("#")[0].split() for line in (GITHUB / "CODEOWNERS").read_text().splitlines()]
    return {line[0]: line[1:] for line in lines if line}


def test_every_task_has_a_codeowners_line() -> None:
    named = set(re.findall(r"^(?:# )?/tasks/([a-z0-9_-]+)/ +@", (GITHUB / "CODEOWNERS").read_text(), re.MULTILINE))
    tasks = {path.parent.name for path in (ROOT / "tasks").glob("*/task.yml")}
    assert named == tasks, f"in .github/CODEOWNERS, add {sorted(tasks - named)}, remove {sorted(named - tasks)}"


def test_the_template_names_no_code_owner() -> None:
    assert not [owner for found in owners().values() for owner in found]


def test_the_last_codeowners_line_leaves_submissions_without_an_owner() -> None:
    assert list(owners())[-1] == "/submissions/" and owners()["/submissions/"] == []


def test_the_ledgers_folders_alone_are_exempt_from_secret_scanning() -> None:
    assert load(GITHUB / "secret_scanning.yml") == {"paths-ignore": [f"{folder}/**" for folder in FOLDERS]}
    assert not [folder for folder in FOLDERS if (ROOT / folder).exists()], "on the default branch it exempts nothing"


def test_dependency_updates_wait_a_week_and_come_in_one_group() -> None:
    updates = load(GITHUB / "dependabot.yml")["updates"]
    assert {one["package-ecosystem"] for one in updates} == {"github-actions", "npm", "pip"}
    for one in updates:
        assert one["schedule"] == {"interval": "weekly"} and one["cooldown"]["default-days"] >= 7
        assert [group["patterns"] for group in one["groups"].values()] == [["*"]]
