"""`scripts/github/gh.py` against a GitHub on loopback: the request of each method, and the result of each failure."""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from scripts.github.checks import Annotation, Check, CheckState
from scripts.github.credentials import ORIGIN, AccessError, checked_repository
from scripts.github.gh import GitHub
from scripts.github.pulls import (
    ACTIONS_BOT,
    Account,
    GitHubError,
    MergeState,
    Permission,
    PullRequest,
    RateLimitError,
    Reaction,
)
from tests.github_server import Failure, GitHubServer, Pull, Run, Way, World

PATH = "submissions/vectoradd/alice/submission.py"
SOURCE = "def custom_kernel(data):\n    return data\n"
MARKER = "<!-- pullrank -->"
WORKFLOW = """
name: evaluate
run-name: judge ${{ inputs.request }}
on:
  workflow_dispatch:
    inputs:
      request: {required: true, type: string}
jobs: {}
"""
EVERYTHING = dict.fromkeys(("actions", "checks", "contents", "issues", "pull-requests"), "write")


@dataclass
class Stage:
    """A repository with alice's pull request, her comment, a check, and a run with a job and an artifact."""

    world: World
    server: GitHubServer
    pull: Pull
    run: Run

    def connect(self, scopes: dict[str, str] | None = None, *, patience_s: float = 0.1, timeout_s: int = 5) -> GitHub:
        token = self.world.workflow_token(EVERYTHING if scopes is None else scopes)
        token.budget.limit = 100_000
        return GitHub(
            self.world.repository, token.value, self.server.api_url, patience_s=patience_s, timeout_s=timeout_s
        )

    @property
    def check(self) -> Check:
        return Check(name="PullRank / CPU", head_sha=self.pull.head_sha, state=CheckState.QUEUED, title="queued")


def set_up(world: World, server: GitHubServer) -> Stage:
    world.commit(
        {"README.md": "Hello\n", "submissions/README.md": "Here.\n", ".github/workflows/evaluate.yml": WORKFLOW}
    )
    alice = world.add_user("alice")
    pull = world.open_pull(alice, {PATH: SOURCE}, title="Faster <b>adds</b>")
    world.add_comment(pull.number, alice, "/rank")
    run = world.start_run("evaluate.yml", "workflow_dispatch", title="judge 1-a")
    world.finish_job(world.start_job(run, "judge", runner="gpu-1"), "success")
    world.add_artifact(run, "judgement", b"PK, as if it were a zip")
    return Stage(world, server, pull, run)


@pytest.fixture
def stage(tmp_path) -> Iterator[Stage]:
    world = World(tmp_path)
    with GitHubServer(world) as server:
        yield set_up(world, server)


@pytest.fixture
def github(stage) -> Iterator[GitHub]:
    with stage.connect() as github:
        yield github


@pytest.fixture(scope="module")
def shared(tmp_path_factory) -> Iterator[Stage]:
    """A stage for calls that do not depend on earlier ones."""
    world = World(tmp_path_factory.mktemp("shared"))
    with GitHubServer(world) as server:
        stage = set_up(world, server)
        with stage.connect() as github:
            github.upsert_comment(1, MARKER, f"{MARKER} first")
            github.create_check(stage.check)
        yield stage


@pytest.fixture
def calm(shared) -> Iterator[Stage]:
    """The shared stage, without an earlier test's failures."""
    shared.server.failures.clear()
    yield shared
    shared.server.failures.clear()


# Requests


def test_a_pull_request_is_read_with_its_ids_and_hashes(stage, github):
    alice = stage.world.users["alice"]
    pull = github.get_pull(1)
    assert pull == PullRequest(
        number=1,
        author=Account(id=alice.id, login="alice"),
        head_sha=stage.pull.head_sha,
        base_ref="main",
        head_ref="patch-1",
        head_repository=stage.pull.head_repo_id,
        base_repository=stage.world.repository_id,
        is_draft=False,
        is_open=True,
        merged=False,
        updated_at=pull.updated_at,
        head_at=stage.pull.created_at,
    )


def test_a_pull_request_of_a_deleted_account_belongs_to_the_ghost_user(stage, github):
    stage.pull.author = stage.pull.head_repo_id = None
    # GitHub's description lacks this behaviour of GitHub.
    pull = github.get_pull(1)
    stage.server.faults.clear()
    assert pull.author == Account(id=10137, login="ghost")


def test_all_open_pull_requests_are_read_page_by_page(stage, github):
    stage.world.close(stage.pull)
    for number in range(2, 104):
        stage.world.pulls[number] = replace(stage.pull, number=number, state="open", draft=number % 2 == 0)
    pulls = github.open_pulls()
    assert [pull.number for pull in pulls] == list(range(103, 1, -1))
    assert [pull.is_draft for pull in pulls[:2]] == [False, True]
    assert len(stage.server.log) == 2


@pytest.mark.parametrize("permission", ["admin", "write", "read", "none"])
def test_permissions_are_read(stage, github, permission):
    bob = stage.world.add_user("bob", permission=permission)
    found = github.permission_of(Account(id=bob.id, login="bob"))
    assert found is Permission(permission)
    assert found.can_write == (permission in ("admin", "write"))


def test_the_new_owner_of_a_login_does_not_inherit_its_permission(stage, github):
    maintainer = stage.world.add_user("maintainer", permission="admin")
    assert github.permission_of(Account(id=maintainer.id + 1, login="maintainer")) is Permission.NONE
    assert github.permission_of(Account(id=1, login="nobody")) is Permission.NONE


def test_accounts_are_found_by_login(stage, github):
    assert github.find_account("ALICE") == Account(id=stage.world.users["alice"].id, login="alice")
    assert github.find_account("github-actions[bot]") == ACTIONS_BOT
    assert github.find_account("nobody") is None
    alice = Account(id=stage.world.users["alice"].id, login="alice")
    assert github.joined_at(alice) == datetime(2026, 1, 1, tzinfo=UTC)
    assert github.joined_at(alice.model_copy(update={"id": 1})) is None
    assert github.joined_at(alice.model_copy(update={"login": "nobody"})) is None


def test_only_a_personal_token_can_ask_for_its_own_account(stage, github):
    with pytest.raises(GitHubError, match="not accessible by integration"):
        github.whoami()
    with GitHub(stage.world.repository, stage.world.personal_token().value, stage.server.api_url) as mine:
        assert mine.whoami().login == "acme"


def test_a_pull_request_is_closed(stage, github):
    github.close_pull(1)
    assert stage.pull.state == "closed"
    assert not github.get_pull(1).is_open


# Comments


def test_one_comment_is_written_then_edited(stage, github):
    first = github.upsert_comment(1, MARKER, f"{MARKER} queued")
    second = github.upsert_comment(1, MARKER, f"{MARKER} done")
    assert second.id == first.id
    assert second.author == ACTIONS_BOT
    assert [comment.body for comment in stage.world.comments_on(1)] == ["/rank", f"{MARKER} done"]


def test_an_unchanged_comment_is_not_edited(stage, github):
    comment = github.upsert_comment(1, MARKER, f"{MARKER} same")
    github.upsert_comment(1, MARKER, f"{MARKER} same")
    github.upsert_comment(1, MARKER, f"{MARKER} same", known=comment)
    assert not stage.server.requests("PATCH *")
    assert len(stage.server.log) == 3  # read, write; read; nothing


def test_a_comment_too_long_for_github_is_not_edited_as_long_as_it_stays_the_same(stage, github):
    for _ in range(2):
        github.upsert_comment(1, MARKER, MARKER + "x\n" * 35_000)
    assert not stage.server.requests("PATCH *")


def test_a_strangers_comment_with_our_marker_is_not_ours(stage, github):
    forged = stage.world.add_comment(1, stage.world.users["alice"], f"{MARKER} first place!")
    assert github.find_comment(1, MARKER) is None
    ours = github.upsert_comment(1, MARKER, f"{MARKER} judged")
    assert ours.id != forged.id
    assert forged.body == f"{MARKER} first place!"
    assert github.find_comment(1, MARKER) == ours


def test_another_bots_comment_with_our_marker_is_not_ours(stage, github):
    other = stage.world.add_user("github-actions-helper[bot]", kind="Bot")
    stage.world.add_comment(1, other, MARKER)
    assert github.find_comment(1, MARKER) is None


def test_our_comment_without_the_marker_is_not_edited(stage, github):
    other = github.comment(1, "You changed two files.")
    ours = github.upsert_comment(1, MARKER, MARKER)
    assert ours.id != other.id
    assert stage.world.comments[other.id].body == "You changed two files."


def test_our_comment_is_found_after_a_hundred_others(stage, github):
    [first] = stage.world.comments_on(1)
    for number in range(120):
        stage.world.comments[number] = replace(first, id=number + 1, body=f"{MARKER} {number}")
    ours = github.comment(1, f"{MARKER} ours")
    assert github.find_comment(1, MARKER) == ours
    assert len(list(github.comments(1))) == 122


def test_a_deleted_authors_comment_belongs_to_the_ghost_user(stage, github):
    stage.world.comments_on(1)[0].author = None
    assert next(github.comments(1)).author.login == "ghost"


def test_a_comment_body_without_its_marker_is_a_value_error(stage, github):
    with pytest.raises(ValueError, match="marker"):
        github.upsert_comment(1, MARKER, "no marker here")


def test_a_comment_too_long_for_github_is_cut(stage, github):
    comment = github.comment(1, "x\n" * 35_000)
    assert len(comment.body) <= 65_536
    assert comment.body.endswith("The rest is on the run's page.\n")


def test_a_repeated_reaction_counts_once(stage, github):
    comment = stage.world.comments_on(1)[0]
    github.react(comment.id, Reaction.ROCKET)
    github.react(comment.id, Reaction.ROCKET)
    assert [content for _, _, content in comment.reactions] == ["rocket"]


# Checks


def test_one_check_run_is_updated_from_queued_to_done(stage, github):
    queued = github.upsert_check(stage.check)
    remark = Annotation(path=PATH, line=2, message="output[3] is 1.5, expected 1.0", title="WA")
    done = Check(
        name="PullRank / CPU",
        head_sha=stage.pull.head_sha,
        state=CheckState.FAILURE,
        title="Wrong answer",
        summary="**1 of 3** tests failed",
        text='{"verdict": "WA"}',
        annotations=(remark,),
        external_id="1-0a1b2c3d4e5f-CPU-ranked-1",
    )
    assert github.upsert_check(done) == queued
    [check] = stage.world.checks.values()
    assert (check.status, check.conclusion) == ("completed", "failure")
    assert check.output == {"title": done.title, "summary": done.summary, "text": done.text}
    assert check.annotations[0] == {
        "path": PATH,
        "start_line": 2,
        "end_line": 2,
        "annotation_level": "failure",
        "message": remark.message,
        "title": "WA",
    }
    [found] = github.checks(stage.pull.head_sha)
    assert (found.id, found.state, found.external_id) == (queued, CheckState.FAILURE, done.external_id)


@pytest.mark.parametrize("state", CheckState)
def test_a_completed_check_run_keeps_its_result(stage, github, state):
    done = github.upsert_check(replace(stage.check, state=CheckState.SUCCESS))
    again = github.upsert_check(replace(stage.check, state=state, title="once more"))
    assert (again == done) is (state is CheckState.SUCCESS)
    found = [(check.id, check.state, check.title) for check in github.checks(stage.pull.head_sha)]
    assert found[-1] == (again, state, "once more")
    assert (found[0][0], found[0][1]) == (done, CheckState.SUCCESS)
    with pytest.raises(GitHubError, match="422"):
        github.update_check(done, replace(stage.check, state=CheckState.CANCELLED))


def test_our_newest_check_run_of_a_name_is_updated(stage, github):
    _, ours = github.create_check(stage.check), github.create_check(stage.check)
    app = stage.world.app_token("kernels-bot", EVERYTHING)
    me = Account(id=app.user.id, login=app.user.login, is_bot=True)
    other = GitHub(stage.world.repository, app.value, stage.server.api_url, me=me)
    theirs = other.upsert_check(stage.check)
    assert ours < theirs and github.upsert_check(stage.check) == ours and other.upsert_check(stage.check) == theirs
    assert len(github.checks(stage.pull.head_sha)) == 3
    assert github.checks("0" * 40) == () and github.find_check("0" * 40, stage.check.name) is None


def test_older_check_runs_of_a_name_are_listed_too_on_all_pages(stage, github):
    ids = [github.create_check(stage.check) for _ in range(101)]
    assert [check.id for check in github.checks(stage.pull.head_sha, stage.check.name)] == ids
    latest = github.ask("GET", f"/commits/{stage.pull.head_sha}/check-runs")
    assert [check["id"] for check in latest["check_runs"]] == ids[-1:], "GitHub's own choice"


def test_an_answer_that_is_still_the_same_costs_no_request(stage, github):
    github.upsert_check(stage.check)
    first, used = github.checks(stage.pull.head_sha), stage.world.budgets[ACTIONS_BOT.id].used
    assert github.checks(stage.pull.head_sha) == first
    assert (stage.world.budgets[ACTIONS_BOT.id].used, stage.server.log[-1].status) == (used, 304)
    github.create_check(stage.check)
    assert len(github.checks(stage.pull.head_sha)) == 2


@pytest.mark.parametrize("state", CheckState)
def test_every_check_state_is_read_back_unchanged(stage, github, state):
    check = Check(name="PullRank / CPU", head_sha=stage.pull.head_sha, state=state, title="so")
    github.create_check(check)
    assert [check.state for check in github.checks(stage.pull.head_sha, "PullRank / CPU")] == [state]
    assert github.checks(stage.pull.head_sha, "PullRank / H100") == ()


def test_annotations_and_text_over_githubs_limits_are_cut(stage, github):
    remarks = tuple(Annotation(path=PATH, line=line, message="no") for line in range(1, 80))
    github.create_check(
        Check(
            name="long",
            head_sha=stage.pull.head_sha,
            state=CheckState.FAILURE,
            title="long",
            summary="Before.\n\n```text\n" + "größer ±\n" * 9_999 + "```\n",
            text="```json\n" + '"µs",\n' * 19_999 + "```\n",
            annotations=remarks,
            run_url="https://github.com/acme/kernels/actions/runs/7",
        )
    )
    [check] = stage.world.checks.values()
    assert len(check.annotations) == 50
    for text in (check.output["summary"], check.output["text"]):
        assert 65_000 < len(text.encode()) <= 65_535
        rest = "on [the run's page](https://github.com/acme/kernels/actions/runs/7).\n"
        assert text.endswith(f"\n```\n\nGitHub shows no more here. The whole report is {rest}")


# Actions


def test_a_dispatch_returns_the_run_that_it_started(stage, github):
    run_id = github.dispatch("evaluate.yml", {"request": "1-0a1b2c3d4e5f-CPU-ranked-1"})
    assert run_id
    run = next(run for run in github.runs("evaluate.yml") if run.id == run_id)
    assert (run.title, run.event, run.status) == ("judge 1-0a1b2c3d4e5f-CPU-ranked-1", "workflow_dispatch", "queued")
    assert stage.world.events[-1].run is stage.world.runs[run_id]


@pytest.mark.parametrize(
    ("workflow", "inputs", "ref", "message"),
    [
        ("other.yml", {}, "main", "404"),
        ("evaluate.yml", {"request": "1", "gpus": "all"}, "main", "Unexpected inputs"),
        ("evaluate.yml", {}, "main", "Required input 'request'"),
        ("evaluate.yml", {"request": "1"}, "trunk", "No ref found"),
    ],
)
def test_a_refused_dispatch_reports_the_reason(github, workflow, inputs, ref, message):
    with pytest.raises(GitHubError, match=message):
        github.dispatch(workflow, inputs, ref)


def test_runs_are_listed_newest_first(stage, github):
    second = stage.world.start_run("evaluate.yml", "workflow_dispatch")
    stage.world.start_run("publish.yml", "push")
    stage.world.finish_run(second, "failure")
    assert [run.id for run in github.runs("evaluate.yml")] == [second.id, stage.run.id]
    assert [run.conclusion for run in github.runs("evaluate.yml", status="completed")] == ["failure"]
    future, past = "2999-01-01T00:00:00Z..2999-01-02T00:00:00Z", "2000-01-01T00:00:00Z..2998-01-01T00:00:00Z"
    assert not list(github.all_runs("evaluate.yml", created=future))
    assert len(list(github.all_runs("evaluate.yml", created=past))) == 2


def test_a_run_is_cancelled_unless_it_has_ended(stage, github):
    github.cancel_run(stage.run.id)
    github.cancel_run(stage.run.id)
    assert stage.run.conclusion == "cancelled"


def test_a_jobs_times_come_from_github(stage, github):
    [job] = github.jobs(stage.run.id)
    assert (job.name, job.runner) == ("judge", "gpu-1")
    assert job.started_at == stage.run.jobs[0].started_at
    assert job.completed_at == stage.run.jobs[0].completed_at


def test_the_storage_host_of_an_artifact_never_sees_the_token(stage, github):
    [artifact] = github.artifacts(stage.run.id, "judgement")
    assert github.artifacts(stage.run.id, "bundle") == ()
    content = github.download_artifact(artifact.id, artifact.size, artifact.digest)
    assert content == b"PK, as if it were a zip"
    [request] = stage.server.requests("GET /artifacts/*")
    assert not request.has_token


@pytest.mark.parametrize(
    ("max_bytes", "digest", "message"),
    [(10, "", "larger than 10 bytes"), (1000, "0" * 64, "does not match its digest")],
)
def test_an_oversized_artifact_or_a_wrong_digest_is_refused(stage, github, max_bytes, digest, message):
    with pytest.raises(GitHubError, match=message):
        github.download_artifact(stage.run.artifacts[0].id, max_bytes, digest)


def test_an_expired_artifact_is_an_error(stage, github):
    stage.run.artifacts[0].expired = True
    with pytest.raises(GitHubError, match="410 Artifact has expired"):
        github.download_artifact(stage.run.artifacts[0].id, 1000)


@pytest.mark.parametrize(
    "failure",
    [
        Failure(status=503),
        Failure(way=Way.RESET),
        Failure(way=Way.TRUNCATED, is_done=True),
        Failure(way=Way.CUT_OFF, is_done=True),
    ],
)
def test_a_failed_artifact_download_is_an_error(stage, github, failure):
    stage.server.fail("GET /artifacts/*", failure)
    artifact = stage.run.artifacts[0]
    with pytest.raises(GitHubError, match="artifact"):
        github.download_artifact(artifact.id, 1000, artifact.digest)


# Merging


def test_a_merge_squashes_the_judged_head_under_our_title(stage, github):
    merge = github.merge(1, stage.pull.head_sha, "vectoradd: alice, 412 µs", "Judged on CPU.")
    assert merge.state is MergeState.MERGED
    assert github.get_pull(1).merged
    git = stage.world.git
    assert git.message("main") == "vectoradd: alice, 412 µs\n\nJudged on CPU."
    assert git.parents("main") == [stage.pull.base_sha]
    assert git.read("main", PATH) == SOURCE.encode()


def test_a_head_that_moved_is_not_merged(stage, github):
    judged = stage.pull.head_sha
    stage.world.push(stage.pull, {PATH: "import os"})
    merge = github.merge(1, judged, "title", "")
    assert merge.state is MergeState.MOVED
    assert "Head branch was modified" in merge.reason
    assert stage.world.git.read("main", PATH) is None


def test_a_conflict_and_a_draft_are_refused(stage, github):
    stage.world.convert_to_draft(stage.pull)
    assert "draft" in github.merge(1, stage.pull.head_sha, "title", "").reason
    stage.world.mark_ready(stage.pull)
    stage.world.commit({PATH: "another\n"})
    merge = github.merge(1, stage.pull.head_sha, "title", "")
    assert merge.state is MergeState.REFUSED
    assert "not mergeable" in merge.reason


def test_a_merge_with_a_lost_answer_counts_as_merged(stage, github):
    stage.server.fail("PUT */merge", Failure(status=502, is_done=True))
    assert github.merge(1, stage.pull.head_sha, "title", "").state is MergeState.MERGED
    assert stage.world.git.parents("main") == [stage.pull.base_sha]


def test_a_change_to_workflows_cannot_be_merged_by_a_workflows_token(stage, github):
    stage.world.push(stage.pull, {".github/workflows/evil.yml": "on: push"})
    assert github.merge(1, stage.pull.head_sha, "title", "").state is MergeState.FORBIDDEN


def test_a_fork_behind_new_workflows_is_merged_once_its_branch_is_updated(stage, github):
    stage.world.commit({".github/workflows/intake.yml": "on: push"})
    assert github.merge(1, stage.pull.head_sha, "title", "").state is MergeState.FORBIDDEN
    stage.world.update_branch(stage.pull)
    assert github.merge(1, stage.pull.head_sha, "title", "").state is MergeState.MERGED


def test_a_rate_limited_merge_is_an_error_not_a_refusal(stage, github):
    stage.server.fail("PUT */merge", Failure(way=Way.PRIMARY_LIMIT, seconds=3600), times=9)
    with pytest.raises(RateLimitError):
        github.merge(1, stage.pull.head_sha, "title", "")


# Failures

Call = Callable[[GitHub, Stage], object]

READS: dict[str, Call] = {
    "get_pull": lambda github, stage: github.get_pull(1),
    "open_pulls": lambda github, stage: github.open_pulls(),
    "permission_of": lambda github, stage: github.permission_of(Account(id=stage.pull.author.id, login="alice")),
    "find_account": lambda github, stage: github.find_account("alice"),
    "comments": lambda github, stage: list(github.comments(1)),
    "find_comment": lambda github, stage: github.find_comment(1, MARKER),
    "checks": lambda github, stage: github.checks(stage.pull.head_sha),
    "runs": lambda github, stage: github.runs("evaluate.yml", status="in_progress"),
    "jobs": lambda github, stage: github.jobs(stage.run.id),
    "artifacts": lambda github, stage: github.artifacts(stage.run.id),
    "download_artifact": lambda github, stage: github.download_artifact(stage.run.artifacts[0].id, 1000),
}  # fmt: skip

REPEATED_WRITES: dict[str, Call] = {
    "upsert_comment": lambda github, stage: github.upsert_comment(1, MARKER, f"{MARKER} {time.monotonic_ns()}").id,
    "close_pull": lambda github, stage: github.close_pull(1),
}  # fmt: skip

ONCE: dict[str, Call] = {
    "comment": lambda github, stage: github.comment(1, "Hello"),
    "react": lambda github, stage: github.react(min(stage.world.comments), Reaction.ROCKET),
    "create_check": lambda github, stage: github.create_check(stage.check),
    "update_check": lambda github, stage: github.update_check(min(stage.world.checks), stage.check),
    "dispatch": lambda github, stage: github.dispatch("evaluate.yml", {"request": "1"}),
    "cancel_run": lambda github, stage: github.cancel_run(stage.run.id),
}

LOST = (
    Failure(status=500),
    Failure(status=502, is_done=True),
    Failure(status=503, retry_after=0),
    Failure(way=Way.RESET),
    Failure(way=Way.RESET, is_done=True),
)
LIMITS = (
    Failure(way=Way.SECONDARY_LIMIT, retry_after=0),
    Failure(way=Way.SECONDARY_LIMIT),
    Failure(status=429, retry_after=0),
)
ANSWERED_BLINDLY = {"update_check", "close_pull", "react", "cancel_run"}
"""Calls that do not read the answer."""
UNREADABLE = (
    Failure(way=Way.HTML),
    Failure(way=Way.HTML, is_done=True),
    Failure(way=Way.TRUNCATED),
    Failure(way=Way.CUT_OFF),
)


def name(value: object) -> str:
    if isinstance(value, Failure):
        return "-".join(
            [str(value.status if value.way is Way.STATUS else value.way), *(["done"] if value.is_done else [])]
        )
    return str(value)


@pytest.mark.parametrize("failure", LOST + LIMITS, ids=name)
@pytest.mark.parametrize("call", READS | REPEATED_WRITES)
def test_a_failed_read_or_repeatable_write_is_retried(calm, failure, call):
    ask = (READS | REPEATED_WRITES)[call]
    with calm.connect() as github:
        expected = ask(github, calm)
        calm.server.fail("*", failure)
        before = len(calm.server.log)
        assert ask(github, calm) == expected
        assert len(calm.server.log) > before + 1


@pytest.mark.parametrize("failure", LOST, ids=name)
@pytest.mark.parametrize("call", ONCE)
def test_a_failed_one_time_write_is_never_sent_again(calm, failure, call):
    before = len(calm.server.log)
    calm.server.fail("*", failure)
    with calm.connect() as github, pytest.raises(GitHubError):
        ONCE[call](github, calm)
    assert len(calm.server.log) == before + 1


@pytest.mark.parametrize("failure", LIMITS, ids=name)
@pytest.mark.parametrize("call", ONCE)
def test_a_rate_limited_one_time_write_is_sent_again(calm, failure, call):
    before = len(calm.server.log)
    calm.server.fail("*", failure)
    with calm.connect() as github:
        ONCE[call](github, calm)
    assert len(calm.server.log) == before + 2


@pytest.mark.parametrize("failure", UNREADABLE, ids=name)
@pytest.mark.parametrize("call", READS | REPEATED_WRITES | ONCE)
def test_an_answer_that_is_not_json_is_a_github_error(calm, failure, call):
    calm.server.fail("*", failure, times=2)
    with calm.connect() as github, pytest.raises(GitHubError) as caught:
        (READS | REPEATED_WRITES | ONCE)[call](github, calm)
    assert caught.value.exit_code == 3


@pytest.mark.parametrize("failure", [Failure(status=500), Failure(way=Way.RESET), Failure(way=Way.SECONDARY_LIMIT, retry_after=0)], ids=name)  # fmt: skip
def test_a_call_that_keeps_failing_is_given_up_after_four_attempts(calm, failure):
    calm.server.fail("*", failure, times=100)
    before = len(calm.server.log)
    with calm.connect() as github, pytest.raises(GitHubError, match="GraphQL Pull 1"):
        github.get_pull(1)
    assert len(calm.server.log) == before + 4


def test_an_error_about_a_malformed_storage_address_does_not_show_it(stage, github):
    stage.world.settings["storage_url"] += "/a b?sig=secret123"
    with pytest.raises(GitHubError, match="its address or its answer is malformed") as caught:
        github.download_artifact(stage.run.artifacts[0].id, 1000)
    assert "secret123" not in str(caught.value)


@pytest.mark.parametrize("call", sorted((READS | REPEATED_WRITES | ONCE).keys() - ANSWERED_BLINDLY))
def test_an_answer_of_the_wrong_shape_is_a_github_error(calm, call):
    calm.server.fail("*", Failure(way=Way.NONSENSE), times=2)
    with calm.connect() as github, pytest.raises(GitHubError, match=r"cannot be read|sent no valid URL"):
        (READS | REPEATED_WRITES | ONCE)[call](github, calm)


def test_a_call_to_a_silent_server_times_out(calm):
    calm.server.fail("*", Failure(way=Way.SILENCE, seconds=2.5))
    with calm.connect(timeout_s=1) as github:
        began = time.monotonic()
        with pytest.raises(GitHubError):
            github.comment(1, "Hello?")
        assert 0.9 < time.monotonic() - began < 2
        calm.server.fail("*/Pull/1", Failure(way=Way.SILENCE, seconds=2.5))
        assert github.get_pull(1).number == 1


def test_the_client_waits_as_long_as_github_asks(calm):
    calm.server.fail("*", Failure(way=Way.SECONDARY_LIMIT, retry_after=1))
    with calm.connect(patience_s=2) as github:
        began = time.monotonic()
        github.comment(1, "Hello")
        assert 1 <= time.monotonic() - began < 2


@pytest.mark.parametrize(
    "failure",
    [
        Failure(way=Way.SECONDARY_LIMIT, retry_after=3600),
        Failure(way=Way.PRIMARY_LIMIT, seconds=3600),
        Failure(status=429, retry_after=3600),
        Failure(status=429),
        Failure(status=503, retry_after=3600),
    ],
)
@pytest.mark.parametrize("call", [READS["get_pull"], ONCE["comment"]], ids=["read", "write"])
def test_a_requested_wait_that_is_too_long_fails_at_once(calm, failure, call):
    calm.server.fail("*", failure)
    before, began = len(calm.server.log), time.monotonic()
    with calm.connect(patience_s=60) as github, pytest.raises(GitHubError) as caught:
        call(github, calm)
    assert time.monotonic() - began < 1
    assert len(calm.server.log) == before + 1
    assert failure.status == 503 or isinstance(caught.value, RateLimitError)


def test_the_client_waits_for_a_rate_limit_that_resets_soon(calm):
    calm.server.fail("*", Failure(way=Way.PRIMARY_LIMIT, seconds=0))
    with calm.connect(patience_s=3) as github:
        assert github.get_pull(1).number == 1


def test_a_used_up_token_raises_a_rate_limit_error(stage, monkeypatch):
    token = stage.world.workflow_token(EVERYTHING)
    monkeypatch.setattr(token.points, "limit", token.points.used + 2)
    with GitHub(stage.world.repository, token.value, stage.server.api_url) as github:
        github.get_pull(1)
        github.get_pull(1)
        with pytest.raises(RateLimitError, match="try again later"):
            github.get_pull(1)


def test_an_unreachable_server_is_an_error():
    with GitHub("acme/kernels", "t", "http://127.0.0.1:9", patience_s=0.1) as github, pytest.raises(GitHubError):
        github.get_pull(1)


@pytest.mark.parametrize(
    ("scopes", "call", "message"),
    [
        ({}, READS["get_pull"], "permissions"),
        ({"pull-requests": "read"}, ONCE["comment"], "Resource not accessible by integration"),
        ({"contents": "read"}, ONCE["dispatch"], "not accessible"),
        ({"contents": "read"}, ONCE["create_check"], "/check-runs"),
    ],
)
def test_a_call_without_permission_fails_with_an_error_that_says_so(calm, scopes, call, message):
    with calm.connect(scopes) as github, pytest.raises(GitHubError, match=message) as caught:
        call(github, calm)
    assert caught.value.status == 403


def test_a_merge_without_permission_is_forbidden_with_the_reason(calm):
    with calm.connect({"contents": "read"}) as github:
        merge = github.merge(1, calm.pull.head_sha, "t", "")
    assert merge.state is MergeState.FORBIDDEN and "Resource not accessible by integration" in merge.reason


def test_a_wrong_token_is_reported_but_never_shown(calm):
    github = GitHub("acme/kernels", "ghs_secret123", calm.server.api_url)
    with github, pytest.raises(GitHubError, match="the token is wrong or has expired") as caught:
        github.get_pull(1)
    assert "secret123" not in str(caught.value)


def test_the_error_names_a_missing_pull_request(calm):
    with (
        calm.connect() as github,
        pytest.raises(GitHubError, match=r"Pull 999: .*404 Could not .* 999.; it does not exist"),
    ):
        github.get_pull(999)


@pytest.mark.parametrize("repository", ["kernels", "acme/kernels/x", "acme/../x", "acme/ker nels", ""])
def test_an_invalid_repository_name_is_refused(repository):
    with pytest.raises(AccessError, match="OWNER/NAME"):
        GitHub(repository, "token")


@pytest.mark.parametrize("owner", ["ada_acme", "artur-", "-x", "Acme"])
def test_the_owner_of_a_repository_may_have_any_login(owner):
    assert checked_repository(f"{owner}/kernels", "--repo") == f"{owner}/kernels"
    for address in (f"https://github.com/{owner}/kernels.git", f"git@github.com:{owner}/kernels"):
        assert ORIGIN.search(address)[1] == f"{owner}/kernels"


@pytest.mark.parametrize("token", ["ghs_secret123\nx", "ghs_secret123\r", "ghs_secret 123", "ghs_secret123€", ""])
def test_a_token_unfit_for_a_header_is_refused_and_never_shown(token):
    with pytest.raises(AccessError, match="the token has") as caught:
        GitHub("acme/kernels", token)
    assert "secret" not in str(caught.value)


class Echo(BaseHTTPRequestHandler):
    """Some proxies repeat the request that they refuse: here in place of a status, or in the message."""

    def do_GET(self) -> None:
        shown = self.headers["Authorization"]
        if "/runs/1/" in self.path:
            self.wfile.write(f"{shown}\r\n\r\n".encode())
            return
        said = json.dumps({"message": f"not with {shown}"}).encode()
        self.send_response(403)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.parametrize("number", [1, 2])
def test_a_token_echoed_by_a_proxy_is_not_shown(number):
    with ThreadingHTTPServer(("127.0.0.1", 0), Echo) as server:
        Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        github = GitHub("acme/kernels", "ghs_secret123", f"http://127.0.0.1:{server.server_port}", patience_s=0.1)
        with github, pytest.raises(GitHubError, match="…") as caught:
            github.jobs(number)
        server.shutdown()
    assert "ghs_" not in str(caught.value)
