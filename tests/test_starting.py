"""The messages when GitHub starts no workflow, each for the person who can fix it."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from scripts.github.gh import GitHub
from scripts.github.pulls import GitHubError, RateLimitError, WorkflowRun
from scripts.github.start_workflow import NotStarted, find_way_out, start_workflow, why_events_are_lost
from tests.github_server import Failure, GitHubServer, World

NAME = ".github/workflows/evaluate.yml"
DISPATCHED = "on:\n  workflow_dispatch:\njobs: {}\n"
MAY = {"actions": "write"}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GitHubServer]:
    with GitHubServer(World(tmp_path)) as made:
        yield made


def start(server: GitHubServer, scopes: dict[str, str], ref: str = "main") -> None:
    token = server.world.workflow_token(scopes).value
    with GitHub(server.world.repository, token, server.api_url) as github:
        start_workflow(github, "evaluate.yml", {}, ref)


@pytest.mark.parametrize(
    ("workflow", "scopes", "ref", "words"),
    [
        (DISPATCHED, {"actions": "read"}, "main", "The job needs `actions: write`"),
        (DISPATCHED, {}, "main", "The job needs `actions: write`"),
        (None, MAY, "main", "`main` has no .github/workflows/evaluate.yml"),
        ("on: push\njobs: {}\n", MAY, "main", "on `main` it has no `workflow_dispatch`"),
        (DISPATCHED, MAY, "trunk", "there is no branch `trunk`"),
    ],
)
def test_a_workflow_that_cannot_start_is_reported_with_the_fix(
    server: GitHubServer, workflow: str | None, scopes: dict[str, str], ref: str, words: str
) -> None:
    server.world.commit({"README.md": "x", **({NAME: workflow} if workflow else {})})
    with pytest.raises(NotStarted) as error:
        start(server, scopes, ref)
    assert str(error.value).startswith("evaluate.yml cannot be started: ") and words in str(error.value)
    assert "`pullrank setup --check`" in str(error.value) and "\n" not in str(error.value)


def test_the_error_for_a_disabled_workflow_says_where_to_enable_it(server: GitHubServer) -> None:
    server.world.commit({NAME: DISPATCHED})
    server.world.disabled_workflows.add("evaluate.yml")
    with pytest.raises(NotStarted, match=r"Actions → evaluate\.yml → Enable workflow"):
        start(server, MAY)


def test_a_temporary_github_error_suggests_no_fix(server: GitHubServer) -> None:
    server.world.commit({NAME: DISPATCHED})
    server.fail("POST */dispatches", Failure(status=500))
    with pytest.raises(GitHubError) as error:
        start(server, MAY)
    assert not isinstance(error.value, NotStarted)
    assert find_way_out("evaluate.yml", "main", RateLimitError("too many", 403)) == ""
    assert find_way_out("evaluate.yml", "main", GitHubError("no answer")) == ""


def test_a_workflow_that_can_be_dispatched_starts(server: GitHubServer) -> None:
    server.world.commit({NAME: DISPATCHED})
    start(server, MAY)
    assert [run.workflow for run in server.world.runs.values()] == ["evaluate.yml"]


def intake_run(event: str, conclusion: str | None = None) -> WorkflowRun:
    return WorkflowRun(
        id=1, title="intake", event=event, status="queued", conclusion=conclusion,
        created_at=datetime(2026, 11, 21, tzinfo=UTC),
    )  # fmt: skip


@pytest.mark.parametrize(
    "runs",
    [
        (),
        (intake_run("issue_comment", "success"),),
        (intake_run("pull_request_target", "failure"),),
        (intake_run("pull_request_target", "startup_failure"), intake_run("issue_comment")),
    ],
    ids=["no runs", "a comment's", "a failed one", "one that GitHub blocked"],
)
def test_missing_pull_request_events_are_reported(runs: tuple[WorkflowRun, ...]) -> None:
    said = why_events_are_lost(runs)
    assert "Actions policy" in said and "`pullrank setup`" in said


@pytest.mark.parametrize("conclusion", [None, "success", "skipped", "cancelled"])
def test_one_started_run_shows_that_pull_request_events_arrive(conclusion: str | None) -> None:
    assert why_events_are_lost([intake_run("issue_comment"), intake_run("pull_request_target", conclusion)]) == ""
