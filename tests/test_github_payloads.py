"""GitHub's real events, from `@octokit/webhooks-examples`: our code reads them; the test server's look like them."""

import json
from pathlib import Path
from typing import Any

import pytest

from scripts.bot.intake.events import CommentEvent, Nothing, PullAction, PullEvent, read_event
from scripts.bot.intake.slash import Command
from scripts.github.checks import CheckRun
from scripts.github.pulls import Job, WorkflowRun
from tests.actions.node import HERE
from tests.competition import SOURCE, path_of
from tests.github_server import World, shapes

Json = dict[str, Any]

SAMPLES = HERE / "node_modules/@octokit/webhooks-examples/api.github.com/index.json"
pytestmark = pytest.mark.skipif(not SAMPLES.is_file(), reason="@octokit/webhooks-examples is missing: make setup")


def samples(name: str) -> list[Json]:
    """GitHub's payloads of one kind of event."""
    known: list[Json] = json.loads(SAMPLES.read_text("utf-8")) if SAMPLES.is_file() else []
    return next((one["examples"] for one in known if one["name"] == name), [])


PULLS, COMMENTS = samples("pull_request"), samples("issue_comment")
PULLS_AS_ISSUES = [one["issue"] for one in samples("issues") if "pull_request" in one["issue"]]
ACTIONS = set(PullAction)


def onto_default(payload: Json) -> Json:
    """The same event, for the default branch and from a person."""
    pull = payload["pull_request"]
    base, author = pull["base"] | {"ref": payload["repository"]["default_branch"]}, pull["user"] | {"type": "User"}
    return payload | {"pull_request": pull | {"base": base, "user": author}}


def test_the_samples_cover_every_expected_event() -> None:
    assert {one["action"] for one in PULLS} >= ACTIONS
    assert any(one["action"] == "created" for one in COMMENTS) and PULLS_AS_ISSUES


@pytest.mark.parametrize("payload", PULLS, ids=lambda one: one["action"])
def test_a_pull_request_event_is_read(payload: Json) -> None:
    event = read_event("pull_request_target", onto_default(payload))
    if payload["action"] not in ACTIONS:
        assert isinstance(event, Nothing)
        return
    assert isinstance(event, PullEvent)
    said, pull = payload["pull_request"], event.pull
    assert (event.action, event.pull.number) == (payload["action"], payload["number"])
    assert pull.head_sha == said["head"]["sha"]
    assert (pull.author.login, pull.author.id) == (said["user"]["login"], said["user"]["id"])
    assert (pull.is_draft, pull.is_open, pull.merged) == (said["draft"], said["state"] == "open", said["merged"])
    assert event.default_branch == payload["repository"]["default_branch"]


@pytest.mark.parametrize("payload", [one for one in PULLS if one["action"] in ACTIONS], ids=lambda one: one["action"])
def test_a_pull_request_for_another_branch_is_ignored(payload: Json) -> None:
    elsewhere = payload["repository"] | {"default_branch": "another"}
    assert isinstance(read_event("pull_request_target", payload | {"repository": elsewhere}), Nothing)


@pytest.mark.parametrize("payload", COMMENTS, ids=lambda one: one["action"])
def test_a_comment_on_an_issue_is_ignored(payload: Json) -> None:
    said = payload["comment"] | {"body": "Please!\r\n/rank"}
    assert isinstance(read_event("issue_comment", payload | {"comment": said}), Nothing)


@pytest.mark.parametrize("payload", COMMENTS, ids=lambda one: one["action"])
def test_only_a_new_comment_on_a_pull_request_is_a_command(payload: Json) -> None:
    """GitHub's samples are about issues; the samples of `issues` show how a pull request looks as one."""
    below = payload | {"issue": PULLS_AS_ISSUES[0]}
    assert isinstance(read_event("issue_comment", below), Nothing)
    event = read_event("issue_comment", below | {"comment": payload["comment"] | {"body": "Please!\r\n/rank"}})
    if payload["action"] != "created":
        assert isinstance(event, Nothing)
        return
    assert isinstance(event, CommentEvent) and isinstance(event.command, Command)
    said = payload["comment"]
    assert (event.number, event.comment.id) == (PULLS_AS_ISSUES[0]["number"], said["id"])
    assert (event.comment.author.login, event.comment.author.id) == (said["user"]["login"], said["user"]["id"])
    assert event.default_branch == payload["repository"]["default_branch"]


@pytest.mark.parametrize("name", ["push", "workflow_run", "workflow_dispatch", "check_run", "release", "fork", "star"])
def test_other_events_are_ignored(name: str) -> None:
    assert samples(name)
    assert {type(read_event(name, payload)) for payload in samples(name)} == {Nothing}


def test_runs_jobs_and_checks_are_read() -> None:
    runs = [payload["workflow_run"] for payload in samples("workflow_run")]
    # Samples from before run names existed.
    named = [one | {"display_title": one.get("display_title", one["name"])} for one in runs]
    assert [WorkflowRun.of(one).id for one in named] == [one["id"] for one in runs]
    jobs = [payload["workflow_job"] for payload in samples("workflow_job")]
    assert [Job.of(one).name for one in jobs] == [one["name"] for one in jobs]
    checks = [payload["check_run"] for payload in samples("check_run")]
    assert [CheckRun.of(one).id for one in checks] == [one["id"] for one in checks]


# The loopback server's events compared with GitHub's, before `complete` adds fields.


def strays(ours: Any, theirs: list[Any], place: str) -> list[str]:
    """Fields of ours that are in none of GitHub's samples, or never with a value of this kind."""
    if isinstance(ours, dict):
        known = [one for one in theirs if isinstance(one, dict)]
        inner = {key: [one[key] for one in known if key in one] for key in ours}
        return [stray for key, value in ours.items() for stray in strays(value, inner[key], f"{place}.{key}")]
    kinds = {type(one) for one in theirs}
    if not theirs or (ours is not None and kinds != {type(None)} and type(ours) not in kinds):
        return [f"{place}: {type(ours).__name__}, not {sorted(kind.__name__ for kind in kinds)}"]
    return []


def without_repositories(run: Json) -> Json:
    """Remove repositories: an event has fewer fields of them than the API, which answers here."""
    return {key: value for key, value in run.items() if "repository" not in key}


def test_our_own_payloads_have_only_githubs_fields(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.commit({"README.md": "A competition."})
    alice = world.add_user("alice")
    pull = world.open_pull(alice, {path_of("alice"): SOURCE})
    comment = world.add_comment(pull.number, alice, "/rank")
    run = world.start_run("evaluate.yml", "workflow_dispatch")
    job = world.start_job(run, "judge")
    made = {
        "pull_request": (shapes.pull(world, pull), [one["pull_request"] for one in PULLS]),
        "repository": (shapes.repository(world), [one["repository"] for one in PULLS + COMMENTS]),
        "comment": (shapes.comment(world, comment), [one["comment"] for one in COMMENTS]),
        "issue": (shapes.issue(world, pull), [*(one["issue"] for one in COMMENTS), *PULLS_AS_ISSUES]),
        "workflow_run": (
            without_repositories(shapes.run(world, run)),
            [one["workflow_run"] for one in samples("workflow_run")],
        ),
        "workflow_job": (shapes.job(world, job, run), [one["workflow_job"] for one in samples("workflow_job")]),
    }
    assert [stray for name, (ours, theirs) in made.items() for stray in strays(ours, theirs, name)] == []


def test_the_comparison_finds_a_field_that_github_never_sends() -> None:
    sample = PULLS[0]["pull_request"]
    assert strays({"number": "12", "heads": {}}, [sample], "pull") == ["pull.number: str, not ['int']"]
    assert strays({"heads": 1}, [sample], "pull") == ["pull.heads: int, not []"]
