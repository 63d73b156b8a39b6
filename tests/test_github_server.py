"""The stand-in for GitHub: it checks both sides against GitHub's description, and follows GitHub's rules."""

import base64
import json
import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.github.gh import GitHub
from scripts.github.pulls import GitHubError
from tests.github_server import Event, GitHubServer, Token, World
from tests.github_server.contract import Unsaid, contract, fields_that_are_read
from tests.github_server.git import GitError, GitRepository
from tests.github_server.objects import EMPTY_TREE
from tests.github_server.reduce_openapi import TARGET
from tests.github_server.routes import ROUTES

PATH = "submissions/vectoradd/alice/submission.py"
NOT_DESCRIBED = {
    "GET /repos/{owner}/{repo}/actions/policies",
    "POST /repos/{owner}/{repo}/actions/policies",
    "GET /repos/{owner}/{repo}/actions/policies/{policy_id}",
    "PUT /repos/{owner}/{repo}/actions/policies/{policy_id}",
    "POST /api/graphql",
}
"""GitHub's description lacks these; GraphQL has its own."""


@pytest.fixture
def world(tmp_path) -> World:
    return World(tmp_path / "github")


@pytest.fixture
def server(world) -> Iterator[GitHubServer]:
    with GitHubServer(world) as server:
        yield server


def ask(server: GitHubServer, token: Token, method: str, path: str, body: object = None) -> object:
    with GitHub(server.world.repository, token.value, server.api_url) as github:
        return github.ask(method, path, body)


def git(folder: Path, *arguments: str, token: Token | None = None) -> subprocess.CompletedProcess[str]:
    credentials = base64.b64encode(f"x-access-token:{token.value}".encode()).decode() if token else ""
    settings = [("http.extraheader", f"Authorization: Basic {credentials}")] if token else []
    settings += [("user.name", "bot"), ("user.email", "bot@example.org")]
    environment = {"GIT_TERMINAL_PROMPT": "0", "GIT_CONFIG_COUNT": str(len(settings)), "GIT_CONFIG_GLOBAL": os.devnull}
    for index, (key, value) in enumerate(settings):
        environment |= {f"GIT_CONFIG_KEY_{index}": key, f"GIT_CONFIG_VALUE_{index}": value}
    return subprocess.run(
        ["git", *arguments], cwd=folder, env=os.environ | environment, capture_output=True, text=True, check=False
    )


# The judge


def test_github_describes_every_route_and_the_description_has_no_others():
    assert {route.name for route in ROUTES} ^ set(contract().operations) == NOT_DESCRIBED


def test_the_description_is_small_and_sorted():
    text = TARGET.read_text()
    assert len(text) < 600_000
    assert text == json.dumps(json.loads(text), sort_keys=True, separators=(",", ":")) + "\n"


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ({"name": "CPU"}, "body"),  # no head_sha
        ({"name": "CPU", "head_sha": "0" * 40, "state": "done"}, "body.state: unknown"),
        ({"name": "CPU", "head_sha": "0" * 40, "output": {"title": "t", "summary": "s", "body": "b"}}, "output.body"),
        ({"name": 7, "head_sha": "0" * 40}, "7 is not of type 'string'"),
        ({"name": "CPU", "head_sha": "0" * 40, "conclusion": "great"}, "'great' is not one of"),
        (None, "needs a body"),
    ],
)
def test_a_request_that_github_does_not_know_is_a_fault(body, fault):
    faults = contract().faults_of_request("POST /repos/{owner}/{repo}/check-runs", {}, body)
    assert any(fault in found for found in faults), faults


def test_a_query_that_github_does_not_know_is_a_fault():
    name = "GET /repos/{owner}/{repo}/pulls"
    assert contract().faults_of_request(name, {"state": "open", "per_page": "100", "page": "2"}, None) == []
    assert contract().faults_of_request(name, {"limit": "5"}, None) == ["?limit: unknown"]
    assert contract().faults_of_request(name, {"state": "merged"}, None)
    assert contract().faults_of_request(name, {"page": "two"}, None)


COMMENT = {
    "id": 7, "node_id": "IC_7", "body": "Hello", "user": None, "created_at": "2026-01-01T00:00:00Z",
    "updated_at": "2026-01-01T00:00:00Z", "html_url": "https://github.com/c", "issue_url": "https://github.com/i",
}  # fmt: skip


@pytest.mark.parametrize("field", ["id", "created_at", "issue_url"])
def test_a_field_that_our_code_reads_is_never_filled_in(field):
    name = "PATCH /repos/{owner}/{repo}/issues/comments/{comment_id}"
    assert "reactions" not in fields_that_are_read() and field in fields_that_are_read()
    with pytest.raises(Unsaid, match=field):
        contract().complete_answer(name, 200, {key: value for key, value in COMMENT.items() if key != field})


@pytest.mark.parametrize(
    ("status", "change"),
    [
        (200, {"id": "7"}),
        (200, {"invented": True}),
        (200, {"user": {"login": "alice"}}),
        (200, {"created_at": None}),
        (418, {}),
    ],
)
def test_an_answer_that_github_never_gives_is_a_fault(status, change):
    name = "PATCH /repos/{owner}/{repo}/issues/comments/{comment_id}"
    whole = contract().complete_answer(name, 200, COMMENT)
    assert contract().faults_of_answer(name, 200, whole) == []
    assert contract().faults_of_answer(name, status, whole | change)


def test_a_fault_ends_the_server_with_an_error(world):
    token = world.workflow_token({"pull-requests": "read"})
    with pytest.raises(AssertionError, match=r"asks \?since: unknown"), GitHubServer(world) as server:
        ask(server, token, "GET", "/pulls?since=2026")


def test_a_request_to_an_unknown_path_is_a_fault(world, server):
    with pytest.raises(GitHubError, match="404"):
        ask(server, world.workflow_token({}), "GET", "/milestones")
    assert server.faults == ["GET /repos/acme/kernels/milestones: nothing serves this"]
    server.faults.clear()


# Events


def test_the_server_sends_the_same_events_as_github(world):
    alice = world.add_user("alice")
    pull = world.open_pull(alice, {PATH: "x = 1\n"}, draft=True)
    world.mark_ready(pull)
    before = pull.head_sha
    after = world.push(pull, {PATH: "x = 2\n"})
    comment = world.add_comment(pull.number, alice, "/rank gpu=CPU")
    world.edit_comment(comment, "/test")
    world.convert_to_draft(pull)
    world.close(pull)
    world.reopen(pull)
    told = [(event.name, event.payload["action"]) for event in world.events]
    assert told == [
        ("pull_request_target", "opened"),
        ("pull_request_target", "ready_for_review"),
        ("pull_request_target", "synchronize"),
        ("issue_comment", "created"),
        ("issue_comment", "edited"),
        ("pull_request_target", "converted_to_draft"),
        ("pull_request_target", "closed"),
        ("pull_request_target", "reopened"),
    ]
    opened, pushed, commented = (world.events[index].payload for index in (0, 2, 3))
    assert opened["pull_request"]["draft"] is True
    assert opened["pull_request"]["user"]["id"] == opened["sender"]["id"] == alice.id
    assert (pushed["before"], pushed["after"], pushed["pull_request"]["head"]["sha"]) == (before, after, after)
    assert commented["comment"]["body"] == "/rank gpu=CPU"
    assert commented["issue"]["pull_request"]["url"].endswith("/pulls/1")


def test_a_workflows_token_triggers_only_the_runs_that_it_dispatches(world, server):
    world.commit({".github/workflows/publish.yml": "name: publish\non: workflow_dispatch\njobs: {}\n"})
    pull = world.open_pull(world.add_user("alice"), {PATH: "x = 1\n"})
    heard: list[Event] = []
    world.listeners.append(heard.append)
    token = world.workflow_token({"contents": "write", "pull-requests": "write", "actions": "write"})
    with GitHub(world.repository, token.value, server.api_url) as github:
        github.comment(1, "Judged.")
        github.merge(1, pull.head_sha, "title", "")
        assert heard == []
        github.dispatch("publish.yml", {})
    assert [event.name for event in heard] == ["workflow_dispatch"]


# Rules


def test_answers_state_the_remaining_rate_limit(world, server):
    token = world.workflow_token({})
    with GitHub(world.repository, token.value, server.api_url) as github:
        github.ask("GET", "")
        assert github._github.rate_limiting == (999, 1000)


def test_a_renamed_account_keeps_its_id(world, server):
    alice = world.add_user("alice")
    world.rename(alice, "alicia")
    with GitHub(world.repository, world.personal_token().value, server.api_url) as github:
        assert github.find_account("alice") is None
        assert github.find_account("alicia").id == alice.id


@pytest.mark.parametrize(
    ("scopes", "is_welcome"), [({"contents": "write"}, True), ({"contents": "read"}, False), (None, False)]
)
def test_a_push_needs_a_token_with_write_access(world, server, tmp_path, scopes, is_welcome):
    token = None if scopes is None else world.workflow_token(scopes)
    assert git(tmp_path, "clone", "--quiet", server.git_url, "clone").returncode == 0
    clone = tmp_path / "clone"
    # Large enough that git sends it in chunks.
    (clone / "fact.bin").write_bytes(os.urandom(2_000_000))
    git(clone, "add", ".")
    git(clone, "commit", "--quiet", "--message", "A fact")
    pushed = git(clone, "push", "--quiet", "origin", "HEAD:ledger", token=token)
    assert (pushed.returncode == 0) == is_welcome, pushed.stderr
    assert (world.git.find_commit("ledger") is not None) == is_welcome


def test_a_push_that_is_not_a_fast_forward_is_refused(world, server, tmp_path):
    token = world.workflow_token({"contents": "write"})
    git(tmp_path, "clone", "--quiet", server.git_url, "clone")
    world.commit({"README.md": "Meanwhile\n"})
    git(tmp_path / "clone", "commit", "--quiet", "--allow-empty", "--message", "Late")
    pushed = git(tmp_path / "clone", "push", "--quiet", "origin", "HEAD:main", token=token)
    assert pushed.returncode == 1
    assert "fetch first" in pushed.stderr


def test_a_blobless_shallow_clone_is_served(world, server, tmp_path):
    world.commit({"README.md": "Hello\n"})
    cloned = git(tmp_path, "clone", "--quiet", "--depth=1", "--filter=blob:none", "--no-checkout", server.git_url, "c")
    assert cloned.returncode == 0, cloned.stderr
    assert git(tmp_path / "c", "show", "HEAD:README.md").stdout == "Hello\n"


def test_the_settings_that_setup_writes_can_be_read_back(world, server):
    token = world.personal_token()
    approval = "/actions/permissions/fork-pr-contributor-approval"
    ask(server, token, "PUT", approval, {"approval_policy": "all_external_contributors"})
    assert ask(server, token, "GET", approval)["approval_policy"] == "all_external_contributors"
    workflow = {"default_workflow_permissions": "read", "can_approve_pull_request_reviews": False}
    ask(server, token, "PUT", "/actions/permissions/workflow", workflow)
    assert ask(server, token, "GET", "/actions/permissions/workflow")["default_workflow_permissions"] == "read"
    ask(server, token, "POST", "/labels", {"name": "accepted", "color": "0e8a16", "description": "Judged."})
    assert ask(server, token, "GET", "/labels/accepted")["description"] == "Judged."
    ask(server, token, "POST", "/pages", {"build_type": "workflow"})
    assert ask(server, token, "GET", "/pages")["build_type"] == "workflow"
    ruleset = {"name": "ledger", "target": "branch", "enforcement": "active", "rules": [{"type": "deletion"}]}
    made = ask(server, token, "POST", "/rulesets", ruleset)
    assert ask(server, token, "GET", f"/rulesets/{made['id']}")["rules"] == [{"type": "deletion"}]
    policy = {"protected_branches": False, "custom_branch_policies": True}
    ask(server, token, "PUT", "/environments/announce", {"deployment_branch_policy": policy})
    ask(server, token, "POST", "/environments/announce/deployment-branch-policies", {"name": "main"})
    branches = ask(server, token, "GET", "/environments/announce/deployment-branch-policies")["branch_policies"]
    assert [branch["name"] for branch in branches] == ["main"]
    rule = {"type": "restrict_action_events", "parameters": {"allowed_events": ["pull_request_target"]}}
    policy = ask(server, token, "POST", "/actions/policies", {"name": "p", "enforcement": "active", "rules": [rule]})
    assert ask(server, token, "GET", "/actions/policies")["total_count"] == 1
    assert ask(server, token, "GET", f"/actions/policies/{policy['id']}")["rules"] == [rule]


@pytest.mark.parametrize("scopes", [{"contents": "write", "actions": "write"}, {}])
def test_a_workflows_token_cannot_change_settings(world, server, scopes):
    with pytest.raises(GitHubError, match="not accessible"):
        ask(server, world.workflow_token(scopes), "PUT", "/actions/permissions/workflow", {})


# Its own handling of git's files, compared with git


def a_commit(repository: GitRepository, dice: random.Random, parents: list[str]) -> str:
    """A commit that adds, changes and removes some files of its first parent."""
    there = repository.files(parents[0]) if parents else []
    new = [f"{dice.choice(['', 'a/', 'a/b/', 'a-b/', 'a.b/'])}{dice.choice('cdefg')}.py" for _ in range(3)]
    files: dict[str, bytes | None] = {path: dice.randbytes(40).hex().encode() for path in new}
    files |= dict.fromkeys(dice.sample(there, min(len(there), dice.choice([0, 0, 1]))))
    if there:
        files[dice.choice(there)] = b"changed\n"
    modes = {dice.choice(new): dice.choice(["100755", "120000"])}
    made = repository.commit(files, parent=parents[0] if parents else None, message=f"Ä {dice.random()}", modes=modes)
    tree = repository.find_tree(made)
    return repository.commit_tree(tree or "", parents, "Merged\n\nTwice.") if len(parents) > 1 else made


@pytest.mark.parametrize("seed", range(4))
def test_our_own_git_reader_and_writer_agree_with_git(tmp_path, seed):
    repository, dice = GitRepository(tmp_path / "r.git"), random.Random(seed)
    commits = [a_commit(repository, dice, [])]
    for number in range(12):
        parents = dice.sample(commits, min(len(commits), 1 + (number % 4 == 3)))
        commits.append(a_commit(repository, dice, parents))
        repository.set_ref(f"refs/heads/b{number}", commits[-1])
    repository.git("fsck", "--strict", "--full")
    for commit in commits:
        listed = repository.git("ls-tree", "-r", "-t", "-l", commit).decode().splitlines()
        assert listed == [
            f"{one.mode} {one.kind} {one.sha} {'-' if one.size is None else one.size:>7}\t{one.path}"
            for one in repository.entries(repository.find_tree(commit), recursive=True)
        ]
        assert repository.message(commit) == repository.line("log", "-1", "--format=%B", commit)
        assert repository.parents(commit) == repository.line("log", "-1", "--format=%P", commit).split()
    assert repository.find_commit("b3") == repository.line("rev-parse", "b3")
    for one, other in [dice.sample(commits, 2) for _ in range(12)]:
        same_as_git(repository, one, other)


def same_as_git(repository: GitRepository, one: str, other: str) -> None:
    bases = git(repository.path, "merge-base", "--all", one, other)
    base = repository.merge_base(one, other)
    assert (base in bases.stdout.split()) if base else not bases.stdout
    merged = git(repository.path, "merge-tree", "--write-tree", one, other)
    assert repository.merge_trees(one, other) == (merged.stdout.split()[0] if merged.returncode == 0 else None)
    told = repository.line("diff-tree", "-r", "-M", "--name-status", base or EMPTY_TREE, other).splitlines()
    letters = {"added": "A", "modified": "M", "removed": "D", "changed": "T", "renamed": "R"}
    found = [(letters[one.status], one.previous_path or one.path, one.path) for one in repository.changes(one, other)]
    assert found == [(words[0][0], words[1], words[-1]) for words in (line.split("\t") for line in told)]


def test_packed_objects_and_refs_are_read_too(tmp_path):
    repository = GitRepository(tmp_path / "r.git")
    commit = repository.commit({"a/b.py": b"1\n"}, parent=None)
    repository.set_ref("refs/heads/one", commit)
    repository.git("repack", "-a", "-d", "-q")
    repository.git("pack-refs", "--all", "--prune")
    again = GitRepository(tmp_path / "other.git")
    shutil.rmtree(again.path)
    shutil.copytree(repository.path, again.path)
    assert again.find_commit("one") == commit and again.read("one", "a/b.py") == b"1\n"
    again.set_ref("refs/heads/one", again.commit({"c": b"2\n"}, parent=commit))
    assert again.line("ls-tree", "-r", "--name-only", "one").split() == ["a/b.py", "c"]


@pytest.mark.parametrize(
    "ref", ["refs/heads/a..b", "refs/heads/.a", "refs/heads/a.lock", "refs/heads/a b", "refs/heads/"]
)
def test_a_ref_name_that_git_refuses_is_refused(world, ref):
    with pytest.raises(GitError):
        world.git.set_ref(ref, world.git.find_commit("main"))


def test_a_ref_to_a_missing_commit_or_below_another_ref_is_refused(world):
    for ref, sha in [("refs/heads/new", "a" * 40), ("refs/heads/main/more", world.git.find_commit("main"))]:
        with pytest.raises(GitError):
            world.git.set_ref(ref, sha)
