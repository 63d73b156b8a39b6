"""The workflow files themselves: GitHub's own parser accepts them, and they follow rules that the scenarios rely on."""

import subprocess
from pathlib import Path

import pytest
import yaml

from tests.actions.expressions import Expressions, Status
from tests.actions.job import PINNED
from tests.actions.node import HERE, find_node, require_node
from tests.actions.uses import ACTIONS
from tests.actions.workflow import Job, Workflow, read_steps, read_workflow

ROOT = Path(__file__).parent.parent
FILES = sorted((ROOT / ".github/workflows").glob("*.yml"))
COMPOSITES = sorted((ROOT / ".github/actions").glob("*/action.yml"))
WORKFLOWS = {path.name: read_workflow(path.name, path.read_bytes()) for path in FILES}
JOBS = [(workflow, job) for workflow in WORKFLOWS.values() for job in workflow.jobs.values()]
UNKNOWN = "cache-mode: none"
"""The only line that the parser may not know, since it is newer."""

each_job = pytest.mark.parametrize(("workflow", "job"), JOBS, ids=[f"{one.file}-{job.name}" for one, job in JOBS])


def faults(folder: Path, texts: dict[str, str]) -> list[str]:
    """The messages of GitHub's parser about files with these texts."""
    for name, text in texts.items():
        (folder / name).write_text(text)
    command = [require_node(), str(HERE / "parser.mjs"), *(str(folder / name) for name in texts)]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=True)
    return done.stdout.splitlines()


def pinned_action(uses: str) -> str | None:
    """The name of an action that is pinned to a commit."""
    pinned = PINNED.fullmatch(uses)
    return pinned["name"] if pinned else None


@pytest.mark.skipif(find_node() is None, reason="Node's packages are missing: make setup")
def test_githubs_parser_finds_no_fault(tmp_path: Path) -> None:
    texts = {path.name: path.read_text().replace(f"    {UNKNOWN}\n", "\n") for path in FILES}
    assert faults(tmp_path, texts) == []


@pytest.mark.skipif(find_node() is None, reason="Node's packages are missing: make setup")
def test_githubs_parser_finds_a_planted_fault(tmp_path: Path) -> None:
    text = (ROOT / ".github/workflows/evaluate.yml").read_text().replace(f"    {UNKNOWN}\n", "\n")
    changes = {
        "timeout-minutes: 10": "timeout-minute: 10",
        "inputs.group": "secrets.group",
        "checks: write": "checks: rite",
    }
    texts = {f"{number}.yml": text.replace(old, new) for number, (old, new) in enumerate(changes.items())}
    assert {Path(line.split(" (Line")[0]).name for line in faults(tmp_path, texts)} == set(texts)


@each_job
def test_a_job_uses_no_cache_and_has_a_time_limit(workflow: Workflow, job: Job) -> None:
    content = yaml.safe_load((ROOT / ".github/workflows" / workflow.file).read_bytes())["jobs"][job.name]
    assert content["cache-mode"] == "none"
    assert job.minutes


@each_job
def test_workflow_scripts_contain_no_expression_and_all_actions_are_known_and_pinned(
    workflow: Workflow, job: Job
) -> None:
    for step in job.steps:
        assert "${{" not in step.run
        assert not step.uses or step.uses.startswith("$/.github/actions/") or pinned_action(step.uses) in ACTIONS


@pytest.mark.parametrize("path", COMPOSITES, ids=lambda path: path.parent.name)
def test_our_own_actions_contain_no_expression_and_use_only_pinned_actions(path: Path) -> None:
    for step in read_steps(yaml.safe_load(path.read_bytes())["runs"]["steps"], str(path)):
        assert "${{" not in step.run
        assert not step.uses or pinned_action(step.uses) in ACTIONS


@pytest.mark.skipif(find_node() is None, reason="Node's packages are missing: make setup")
def test_intake_starts_only_for_authorised_users_and_never_while_switched_off() -> None:
    (job,) = WORKFLOWS["intake.yml"].jobs.values()

    def starts(by: int, association: str, body: str = "/rank", *, on: object = 1, switch: str = "") -> bool:
        comment = {"body": body, "user": {"id": by}, "author_association": association}
        event = {"issue": {"user": {"id": 7}, "pull_request": on}, "comment": comment}
        github = {"event_name": "issue_comment", "event": event}
        variables = {"PULLRANK": switch} if switch else {}
        return expressions.holds(job.condition, {"github": github, "vars": variables}, Status())

    with Expressions() as expressions:
        assert starts(7, "NONE") and starts(7, "FIRST_TIME_CONTRIBUTOR", "Please!\n/rank")
        assert all(starts(8, word) for word in ("OWNER", "MEMBER", "COLLABORATOR", "CONTRIBUTOR"))
        assert not any(starts(8, word) for word in ("NONE", "FIRST_TIMER", "FIRST_TIME_CONTRIBUTOR", "MANNEQUIN"))
        assert not starts(7, "NONE", "Nice work!") and not starts(7, "NONE", on=None)
        assert not starts(7, "NONE", switch="off") and starts(7, "NONE", switch="on")
        pushed = {"event_name": "pull_request_target", "event": {}}
        for variables, is_started in (({}, True), ({"PULLRANK": "off"}, False)):
            assert expressions.holds(job.condition, {"github": pushed, "vars": variables}, Status()) is is_started


STRANGERS = [pair for pair in JOBS if any("harness.pyz" in step.run for step in pair[1].steps)]


def test_jobs_that_run_strangers_code_have_no_secrets_or_permissions() -> None:
    assert {job.name for _, job in STRANGERS} == {"check", "judge"}
    for _, job in STRANGERS:
        said = yaml.safe_dump([[step.env, step.inputs, step.condition] for step in job.steps])
        assert job.permissions == {} and job.environment is None and not job.env
        assert "secrets" not in said and "github" not in said.replace("github-hosted", "")
        assert not any("checkout" in step.uses or step.uses.startswith("$/") for step in job.steps)


# Machines.

SLIM = "ubuntu-slim"
"""One core, 5 GB, no sandbox, and a limit of this many minutes."""
SLIM_MINUTES = 15
LARGE = {
    ("check.yml", "check"): "the sandbox",
    ("ci.yml", "test"): "the sandbox",
    ("dataset.yml", "write"): "memory for all judgements",
    ("evaluate.yml", "judge"): "the sandbox",
    ("publish.yml", "build"): "memory and time for the whole site",
}
"""The jobs that need another machine, and the reason."""


@each_job
def test_a_job_that_only_talks_to_github_runs_on_a_small_machine(workflow: Workflow, job: Job) -> None:
    if (workflow.file, job.name) in LARGE:
        assert job.runs_on != SLIM
    else:
        assert job.runs_on == SLIM and 0 < job.minutes <= SLIM_MINUTES
        assert not any("sudo" in step.run or "bwrap" in step.run for step in job.steps)


def test_at_most_two_hosted_jobs_run_between_a_push_and_judging() -> None:
    def jobs_before(workflow: Workflow, name: str) -> set[tuple[str, str]]:
        needs = workflow.jobs[name].needs
        return {(workflow.file, need) for need in needs}.union(*(jobs_before(workflow, need) for need in needs))

    first = WORKFLOWS["intake.yml"]
    assert all(not job.needs for job in first.jobs.values()), "intake's jobs would wait for each other"
    before = {(first.file, name) for name in first.jobs} | jobs_before(WORKFLOWS["evaluate.yml"], "judge")
    assert before == {("intake.yml", "intake"), ("evaluate.yml", "resolve")}


@pytest.mark.parametrize("path", COMPOSITES, ids=lambda path: path.parent.name)
def test_our_own_actions_install_only_hashed_packages_from_their_lock(path: Path) -> None:
    (step,) = read_steps(yaml.safe_load(path.read_bytes())["runs"]["steps"], str(path))
    words = step.run.replace("\\\n", " ").split()
    assert words[:4] == ["python3", "-m", "pip", "install"] and "&&" not in step.run
    assert {"--require-hashes", "--only-binary=:all:", "--no-deps", "--no-compile"} <= set(words)
    assert words[-2:] == ["--requirement", f".github/actions/{path.parent.name}/requirements.lock"]
