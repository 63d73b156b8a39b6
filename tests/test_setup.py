"""`pullrank setup` against a GitHub on loopback: sets up a fresh repository, and repairs any damage."""

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
import yaml

from scripts import cli
from scripts.setup.app import PERMISSIONS
from scripts.setup.wanted import (
    EVENTS,
    LABELS,
    MAIN_RULESET,
    POLICY,
    WORKFLOWS,
    find_idle,
    find_policy_faults,
    find_ruleset_faults,
    find_workflow_faults,
    mend_environment,
    mend_policy,
    mend_ruleset,
)
from tests.github_server import Failure, GitHubServer, Token, World
from tests.github_server.world import key_pair

ROOT = Path(__file__).parent.parent
SHIPPED = {str(path.relative_to(ROOT)): path.read_bytes() for path in (ROOT / ".github/workflows").glob("*.yml")}
RIGHTS = dict.fromkeys(("actions", "administration", "contents", "issues", "pages"), "write")
ALL = [
    "default branch", "merging", "labels", "ledger", "workflows", "actions", "workflow token", "approval",
    "event policy", "reporting", "rules of main", "rules of ledger", "environment", "announcements", "review",
    "bot", "site",
]  # fmt: skip
GOOD_WHEN_NEW = {"default branch", "workflows"}


@dataclass
class Stage:
    """A repository that was just made from the template, and a user of `pullrank setup`."""

    world: World
    server: GitHubServer
    patch: pytest.MonkeyPatch
    capsys: pytest.CaptureFixture[str]

    def call(self, *options: str, token: Token | None = None) -> tuple[int, str, str]:
        """Exit code, stdout, stderr."""
        self.patch.setenv("GH_TOKEN", (token or self.world.personal_token()).value)
        self.capsys.readouterr()
        code = cli.run(["setup", "--repo", self.world.repository, *options])
        said = self.capsys.readouterr()
        return code, said.out, said.err

    def states(self, *options: str, token: Token | None = None) -> dict[str, str]:
        """The state of each setting; checks that the exit code agrees."""
        code, out, err = self.call("--json", *options, token=token)
        assert err == ""
        found = {one["name"]: one["state"] for one in json.loads(out)["settings"]}
        assert code == (0 if set(found.values()) <= {"ok", "changed"} else 1)
        return found

    def fine_grained(self, **rights: str) -> Token:
        """A token of the owner with only these rights."""
        made = self.world.personal_token()
        made.scopes = {"metadata": "read"} | rights
        return made

    def writes(self) -> list[str]:
        """The requests since the last call that change anything."""
        found = [
            str(one) for one in self.server.log if one.method != "GET" and not one.path.endswith("git-upload-pack")
        ]
        self.server.log.clear()
        return found


def new_world(folder: Path) -> World:
    world = World(folder / "github")
    world.commit({"README.md": "A competition.", **SHIPPED})
    return world


def point_to(server: GitHubServer, patch: pytest.MonkeyPatch) -> None:
    """Make commands use this server as GitHub."""
    for name in ("GITHUB_TOKEN", "GITHUB_REPOSITORY"):
        patch.delenv(name, raising=False)
    patch.setenv("GITHUB_API_URL", server.api_url)
    patch.setenv("GITHUB_SERVER_URL", server.url)


@pytest.fixture
def stage(tmp_path, monkeypatch, capsys) -> Iterator[Stage]:
    world = new_world(tmp_path)
    with GitHubServer(world) as server:
        point_to(server, monkeypatch)
        yield Stage(world, server, monkeypatch, capsys)


@dataclass
class Prepared:
    """A repository that was set up once, and its state then."""

    server: GitHubServer
    settings: dict[str, Any]
    labels: dict[str, Any]
    ledger: str

    def restore(self) -> World:
        world = self.server.world
        world.settings, world.labels = deepcopy(self.settings), deepcopy(self.labels)
        world.git.set_ref("refs/heads/ledger", self.ledger)
        world.disabled_workflows.clear()
        self.server.log.clear()
        return world


@pytest.fixture(scope="module")
def prepared(tmp_path_factory) -> Iterator[Prepared]:
    world = new_world(tmp_path_factory.mktemp("prepared"))
    with GitHubServer(world) as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("GH_TOKEN", world.personal_token().value)
        point_to(server, patch)
        assert cli.run(["setup", "--repo", world.repository, "--json"]) == 0
        ledger = world.git.find_ref("refs/heads/ledger")
        assert ledger
        yield Prepared(server, deepcopy(world.settings), deepcopy(world.labels), ledger)


@pytest.fixture
def ready(prepared, monkeypatch, capsys) -> Iterator[Stage]:
    point_to(prepared.server, monkeypatch)
    yield Stage(prepared.restore(), prepared.server, monkeypatch, capsys)
    assert not prepared.server.faults


# From a fresh repository to one that is ready.


def test_a_check_of_a_fresh_repository_changes_nothing(stage):
    states = stage.states("--check")
    assert list(states) == ALL
    assert {name for name, state in states.items() if state == "ok"} == GOOD_WHEN_NEW
    assert {state for name, state in states.items() if name not in GOOD_WHEN_NEW} == {"missing"}
    assert stage.writes() == []


def test_setup_makes_a_fresh_repository_ready(stage):
    changed = {name for name, state in stage.states().items() if state == "changed"}
    assert changed == set(ALL) - GOOD_WHEN_NEW
    assert set(stage.states("--check").values()) == {"ok"}
    assert stage.world.git.files("ledger") == ["README.md"]
    # The site exists at once, not only after the first merge.
    assert [run.workflow for run in stage.world.runs.values()] == ["publish.yml"]


def test_a_second_run_writes_nothing(ready):
    assert set(ready.states().values()) == {"ok"}
    assert ready.writes() == []


def test_a_fine_grained_token_with_the_named_rights_is_enough(stage):
    assert "missing" not in stage.states(token=stage.fine_grained(**RIGHTS)).values()
    assert set(stage.states("--check").values()) == {"ok"}


# Damage.


def set_in(*path: Any, value: Any) -> Callable[[World], None]:
    def damage(world: World) -> None:
        *places, last = path
        target = world.settings
        for place in places:
            target = next(iter(target.values())) if place is next else target[place]
        target[last] = value

    return damage


def ruleset(world: World, branch: str) -> dict[str, Any]:
    return next(one for one in world.settings["rulesets"].values() if one["name"] == f"PullRank: {branch}")


def drop_rule(branch: str, kind: str) -> Callable[[World], None]:
    def damage(world: World) -> None:
        found = ruleset(world, branch)
        found["rules"] = [rule for rule in found["rules"] if rule["type"] != kind]

    return damage


def drop_ruleset(world: World) -> None:
    del world.settings["rulesets"][ruleset(world, "ledger")["id"]]


def ask_for_approvals(world: World) -> None:
    rule = next(rule for rule in ruleset(world, "main")["rules"] if rule["type"] == "pull_request")
    rule["parameters"]["required_approving_review_count"] = 1


def only_merges(world: World) -> None:
    rule = next(rule for rule in ruleset(world, "main")["rules"] if rule["type"] == "pull_request")
    rule["parameters"]["allowed_merge_methods"] = ["merge"]


def uncover(world: World) -> None:
    ruleset(world, "main")["conditions"] = {"ref_name": {"include": ["~ALL"], "exclude": ["~DEFAULT_BRANCH"]}}


def forget_event(world: World) -> None:
    world.settings["policies"][0]["rules"][0]["parameters"]["allowed_events"].remove("pull_request_target")


def allow_forks(world: World) -> None:
    world.settings["policies"][0]["rules"][0]["parameters"]["allowed_events"].append("pull_request")


def free_environment(world: World) -> None:
    world.settings["environments"]["github-pages"] |= {"deployment_branch_policy": None, "protection_rules": []}


DAMAGES: list[tuple[str, str, Callable[[World], None]]] = [
    ("merging", "allow_squash_merge is off", set_in("merging", "allow_squash_merge", value=False)),
    ("merging", "allow_update_branch is off", set_in("merging", "allow_update_branch", value=False)),
    ("labels", "no label judging", lambda world: world.labels.pop("judging")),
    ("ledger", "no branch 'ledger'", lambda world: world.git.delete_ref("refs/heads/ledger")),
    ("workflows", "reconcile.yml: disabled_inactivity", lambda world: world.disabled_workflows.add("reconcile.yml")),
    ("actions", "enabled is off", set_in("permissions", "enabled", value=False)),
    ("actions", "allowed_actions is all", set_in("permissions", "allowed_actions", value="all")),
    ("actions", "allowed_actions is local_only", set_in("permissions", "allowed_actions", value="local_only")),
    ("actions", "sha_pinning_required is off", set_in("permissions", "sha_pinning_required", value=False)),
    ("actions", "github_owned_allowed is off", set_in("selected-actions", "github_owned_allowed", value=False)),
    ("workflow token", "is write", set_in("workflow", "default_workflow_permissions", value="write")),
    ("workflow token", "reviews is on", set_in("workflow", "can_approve_pull_request_reviews", value=True)),
    ("approval", "is first_time", set_in("fork-pr-contributor-approval", "approval_policy", value="first_time_contributors")),
    ("event policy", "no policy", set_in("policies", value=[])),
    ("event policy", "enforcement is disabled", set_in("policies", 0, "enforcement", value="disabled")),
    ("event policy", "restricts no events", set_in("policies", 0, "rules", value=[])),
    ("event policy", "'PullRank' blocks pull_request_target", forget_event),
    ("event policy", "not cover all workflows", set_in("policies", 0, "conditions", "workflow_path", value={"include": ["a.yml"], "exclude": []})),
    ("reporting", "enabled is off", set_in("private-vulnerability-reporting", "enabled", value=False)),
    ("rules of main", "lacks the rule pull_request", drop_rule("main", "pull_request")),
    ("rules of main", "lacks the rule deletion", drop_rule("main", "deletion")),
    ("rules of main", "required_approving_review_count is 1", ask_for_approvals),
    ("rules of main", "does not cover ~DEFAULT_BRANCH", uncover),
    ("rules of main", "enforcement is disabled", lambda world: ruleset(world, "main").update(enforcement="disabled")),
    ("rules of ledger", "lacks the rule non_fast_forward", drop_rule("ledger", "non_fast_forward")),
    ("rules of ledger", "no ruleset 'PullRank: ledger'", drop_ruleset),
    ("rules of ledger", "somebody may bypass it", lambda world: ruleset(world, "ledger").update(bypass_actors=[{"actor_id": 4, "actor_type": "RepositoryRole", "bypass_mode": "always"}])),
    ("rules of main", "does not allow squash merging", only_merges),
    ("event policy", "allows pull_request or", allow_forks),
    ("workflows", "dataset.yml: disabled_inactivity", lambda world: world.disabled_workflows.add("dataset.yml")),
    ("environment", "no such environment", lambda world: world.settings["environments"].pop("github-pages")),
    ("announcements", "no such environment", lambda world: world.settings["environments"].pop("announce")),
    ("review", "no such environment", lambda world: world.settings["environments"].pop("review")),
    ("bot", "no such environment", lambda world: world.settings["environments"].pop("bot")),
    ("environment", "not restricted", free_environment),
    ("environment", "main may not deploy", set_in("environments", "github-pages", "branches", value=[])),
    ("site", "no site", set_in("pages", value=None)),
    ("site", "build_type is legacy", set_in("pages", "build_type", value="legacy")),
]  # fmt: skip


@pytest.mark.parametrize(("name", "fault", "damage"), DAMAGES, ids=[f"{name}: {fault}" for name, fault, _ in DAMAGES])
def test_setup_reports_and_repairs_each_damage_alone(name, fault, damage, ready):
    damage(ready.world)
    code, out, _ = ready.call("--check", "--json")
    bad = [one for one in json.loads(out)["settings"] if one["state"] != "ok"]
    assert (code, [(one["name"], one["state"]) for one in bad]) == (1, [(name, "missing")])
    assert fault in bad[0]["found"]
    assert ready.writes() == []
    assert {name: state for name, state in ready.states().items() if state != "ok"} == {name: "changed"}
    assert set(ready.states("--check").values()) == {"ok"}


def test_the_damage_tests_cover_every_setting_but_the_default_branch():
    assert {name for name, *_ in DAMAGES} == set(ALL) - {"default branch"}


def test_setup_does_not_rename_the_default_branch(ready):
    ready.world.settings["repository"] = {"default_branch": "trunk"}
    assert ready.states()["default branch"] == "missing"
    assert "rename it to main" in ready.call()[1]


@pytest.mark.parametrize("environment", ["announce", "review", "bot"])
def test_setup_reports_other_branches_that_may_use_a_secret(environment, ready):
    ready.world.settings["environments"][environment]["branches"].append({"id": 9, "name": "*", "type": "branch"})
    code, out, _ = ready.call("--check")
    assert code == 1 and "* may use its secrets" in out


def test_setup_reports_a_merge_queue_in_which_the_bot_cannot_merge(ready):
    ruleset(ready.world, "main")["rules"].append({"type": "merge_queue"})
    code, out, _ = ready.call("--check")
    assert code == 1 and "merge_queue: the bot cannot merge" in out


def test_setup_keeps_settings_that_an_organiser_added(ready):
    settings = ready.world.settings
    main, environment, policy = (
        ruleset(ready.world, "main"),
        settings["environments"]["github-pages"],
        settings["policies"][0],
    )
    robot = {"actor_id": 77, "actor_type": "Integration", "bypass_mode": "pull_request"}
    main["rules"].insert(0, {"type": "required_linear_history"})
    main["bypass_actors"] = [robot]
    main["conditions"]["ref_name"]["include"].append("refs/heads/release/*")
    environment["branches"].append({"id": 9, "name": "preview/*", "type": "branch"})
    environment["protection_rules"] = [
        {"id": 1, "type": "wait_timer", "wait_timer": 30},
        {"id": 2, "type": "required_reviewers", "prevent_self_review": True, "reviewers": [{"type": "User", "reviewer": {"id": 5}}]},
    ]  # fmt: skip
    actors = {
        "type": "restrict_actions_actors",
        "parameters": {"allowed_actors": [{"id": 5, "type": "RepositoryRole"}]},
    }
    policy["rules"] = [actors, {"type": "restrict_action_events", "parameters": {"allowed_events": ["release"]}}]
    settings["selected-actions"] = {
        "github_owned_allowed": False,
        "verified_allowed": True,
        "patterns_allowed": ["astral-sh/*"],
    }
    ready.world.labels["judging"]["color"] = "ffffff"
    # Damage in each.
    main["enforcement"] = "disabled"
    environment["deployment_branch_policy"] = None
    environment["branches"] = [branch for branch in environment["branches"] if branch["name"] != "main"]

    assert "missing" not in ready.states().values()

    assert [rule["type"] for rule in main["rules"]] == [
        "required_linear_history",
        "deletion",
        "non_fast_forward",
        "pull_request",
    ]
    assert main["bypass_actors"] == [robot]
    assert main["conditions"]["ref_name"]["include"] == ["~DEFAULT_BRANCH", "refs/heads/release/*"]
    assert [branch["name"] for branch in environment["branches"]] == ["preview/*", "main"]
    kept = {rule["type"]: rule for rule in environment["protection_rules"]}
    assert kept["wait_timer"]["wait_timer"] == 30
    assert kept["required_reviewers"]["reviewers"] == [{"type": "User", "reviewer": {"id": 5}}]
    assert kept["required_reviewers"]["prevent_self_review"] is True
    assert policy["rules"][0] == actors
    assert policy["rules"][1]["parameters"]["allowed_events"] == sorted([*EVENTS, "release"])
    assert settings["selected-actions"] == {
        "github_owned_allowed": True,
        "verified_allowed": True,
        "patterns_allowed": ["astral-sh/*"],
    }
    assert ready.world.labels["judging"]["color"] == "ffffff"


# Missing rights.


def test_a_non_admin_learns_which_settings_cannot_be_seen(ready):
    token = ready.world.personal_token(ready.world.add_user("wanda", permission="write"))
    code, out, _ = ready.call("--check", "--json", token=token)
    found = {one["name"]: one for one in json.loads(out)["settings"]}
    unseen = {name for name, one in found.items() if one["state"] == "cannot be seen"}
    assert code == 1
    assert unseen == {"actions", "workflow token", "approval", "event policy", "reporting"}
    assert {one["state"] for name, one in found.items() if name not in unseen} == {"ok"}
    assert found["approval"]["found"] == "your account is not an admin of acme/kernels"


def test_a_hidden_site_does_not_count_as_missing_for_a_stranger(stage):
    token = stage.world.personal_token(stage.world.add_user("wanda"))
    states = stage.states("--check", token=token)
    assert {states["site"], states["merging"], states["environment"]} == {"cannot be seen"}


def test_only_an_admin_may_run_setup(stage):
    token = stage.world.personal_token(stage.world.add_user("wanda", permission="write"))
    code, out, err = stage.call(token=token)
    assert (code, out) == (2, "")
    assert "only an admin of acme/kernels" in err
    assert stage.writes() == []


@pytest.mark.parametrize(
    ("lacking", "hidden"),
    [
        ("administration", {"actions", "workflow token", "approval", "event policy", "reporting"}),
        ("actions", {"workflows", "environment", "announcements", "review", "bot"}),
        ("pages", {"site"}),
    ],
)
def test_setup_names_a_permission_that_the_token_lacks(lacking, hidden, ready):
    rights = {name: level for name, level in RIGHTS.items() if name != lacking}
    code, out, _ = ready.call("--check", "--json", token=ready.fine_grained(**rights))
    found = {one["name"]: one["found"] for one in json.loads(out)["settings"] if one["state"] == "cannot be seen"}
    assert (code, set(found)) == (1, hidden)
    unclear = found.pop("event policy", "")
    assert not unclear or "or that the token lacks the permission Administration" in unclear
    assert all(
        re.fullmatch("the token lacks the permission (Actions|Administration|Pages)( or Administration)?", words)
        for words in found.values()
    )


def test_a_read_only_token_changes_nothing_and_every_refusal_is_reported(stage):
    token = stage.fine_grained(**dict.fromkeys(RIGHTS, "read"))
    code, out, err = stage.call(token=token)
    assert (code, err) == (1, "")
    assert out.count("the token lacks the permission Administration") == 8
    assert "there is no branch 'ledger'; git push failed" in out
    assert stage.world.git.find_ref("refs/heads/ledger") is None
    assert set(stage.states("--check").values()) == {"ok", "missing"}


# The bot as a GitHub App.


@pytest.fixture
def key_file(tmp_path):
    file = tmp_path / "kernels.private-key.pem"
    file.write_text(key_pair()[0])
    return file


def bot_environment(world: World) -> dict[str, Any]:
    return world.settings["environments"]["bot"]


def test_an_apps_id_and_key_are_stored_where_only_main_reads_them(stage, key_file):
    app = stage.world.add_app("kernels-bot", {"metadata": "read", **PERMISSIONS})
    code, _, err = stage.call("--app", app.client_id, "--app-key", str(key_file))
    assert (code, err) == (0, "The bot acts as the App kernels-bot.\n")
    found = bot_environment(stage.world)
    assert found["variables"] == {"PULLRANK_APP": app.client_id}
    assert found["secrets"] == {"PULLRANK_APP_KEY": key_pair()[0]}
    assert [branch["name"] for branch in found["branches"]] == ["main"]
    assert key_pair()[0].splitlines()[3] not in json.dumps([one.body for one in stage.server.log])


def test_the_address_for_a_new_app_fills_in_its_form(stage):
    code, out, err = stage.call("--new-app")
    assert (code, err, stage.writes()) == (0, "", [])
    address, _, query = out.strip().partition("?")
    assert address == f"{stage.server.url}/settings/apps/new"
    asked = dict(parse_qsl(query))
    assert asked.pop("name") == "kernels-bot" and asked.pop("url") == f"{stage.server.url}/acme/kernels"
    assert asked == PERMISSIONS | {"webhook_active": "false", "public": "false"}


def test_an_app_can_be_replaced_by_another(stage, key_file):
    for slug in ("first", "second"):
        app = stage.world.add_app(slug, PERMISSIONS | {"deployments": "write"})
        code, _, err = stage.call("--app", app.client_id, "--app-key", str(key_file))
        assert (code, err) == (0, f"The bot acts as the App {slug}; it does not need: deployments.\n")
    assert bot_environment(stage.world)["variables"] == {"PULLRANK_APP": app.client_id}


@pytest.mark.parametrize(
    ("permissions", "message"),
    [
        (None, "the App kernels-bot is not installed on acme/kernels: install it at "),
        (PERMISSIONS | {"checks": "read"}, "the App kernels-bot lacks the permission to write: Checks. Add it"),
        ({"metadata": "read"}, "Actions, Checks, Contents, Issues, Pull requests, Workflows"),
    ],
)
def test_an_app_with_too_few_permissions_is_not_stored(permissions, message, stage, key_file):
    app = stage.world.add_app("kernels-bot", permissions)
    code, _, err = stage.call("--app", app.client_id, "--app-key", str(key_file))
    assert code == 2
    assert message in err
    assert bot_environment(stage.world)["secrets"] == {}


def test_a_key_of_another_app_is_refused(stage, key_file):
    stage.world.add_app("kernels-bot", PERMISSIONS)
    code, _, err = stage.call("--app", "Iv23liOther", "--app-key", str(key_file))
    assert (code, err) == (2, "pullrank: GitHub does not accept this key for the App Iv23liOther: take its Client ID\n")


@pytest.mark.parametrize(("text", "why"), [(None, "No such file or directory"), ("-----BEGIN", "is no private key")])
def test_a_file_without_a_key_is_named_and_nothing_is_sent(text, why, stage, tmp_path):
    file = tmp_path / "key.pem"
    if text:
        file.write_text(text)
    code, out, err = stage.call("--app", "Iv23li", "--app-key", str(file))
    assert (code, out, stage.writes()) == (2, "", [])
    assert err.startswith(f"pullrank: {file}") and why in err


@pytest.mark.parametrize(
    "options",
    [
        ["--app", "Iv23li"],
        ["--app-key", "key.pem"],
        ["--app", "I", "--app-key", "k", "--check"],
        ["--app", "I", "--app-key", "k", "--new-app"],
    ],
)
def test_an_app_needs_its_key(options, stage):
    code, _, err = stage.call(*options)
    assert code == 2
    assert "--app and --app-key belong together, without --check and --new-app" in err


def test_setup_names_the_permission_needed_to_write_secrets(stage, key_file):
    app = stage.world.add_app("kernels-bot", PERMISSIONS)
    token = stage.fine_grained(**RIGHTS)
    code, _, err = stage.call("--app", app.client_id, "--app-key", str(key_file), token=token)
    assert code == 2
    assert "may not write secrets and variables of bot: add Environments: read and write" in err


# Repositories that cannot become a competition.


def test_a_fork_is_refused(stage):
    stage.world.settings["repository"] = {"fork": True}
    for options in ([], ["--check"]):
        code, out, err = stage.call(*options)
        assert (code, out) == (2, "")
        assert "acme/kernels is a fork" in err
    assert stage.writes() == []


def test_setup_reports_what_a_private_repositorys_plan_lacks_and_does_the_rest(stage):
    stage.world.settings["repository"] = {"private": True, "visibility": "private"}
    found = {one["name"]: one for one in json.loads(stage.call("--json")[1])["settings"]}
    assert not {"approval", "event policy", "reporting"} & found.keys()
    short = {
        name
        for name, one in found.items()
        if "GitHub's plan does not include this for a private repository" in one["found"]
    }
    assert short == {"rules of main", "rules of ledger", "environment", "announcements", "review", "bot", "site"}
    assert {one["state"] for name, one in found.items() if name not in short} == {"ok", "changed"}


@pytest.mark.parametrize(
    ("options", "token", "message"),
    [
        ([], "", "no token: sign in with `gh auth login`"),
        ([], "ghp_wrong", "GitHub rejects this token"),
        (["--repo", "acme/kernel"], None, "there is no repository acme/kernel"),
        (["--repo", "kernels"], None, "'kernels' is not a repository; write OWNER/NAME"),
    ],
)
@pytest.mark.parametrize("check", [[], ["--check"]])
def test_a_wrong_call_gets_one_error_message(options, token, message, check, stage):
    stage.patch.setenv("GH_TOKEN", stage.world.personal_token().value if token is None else token)
    stage.patch.setattr("shutil.which", lambda name: None)
    code = cli.run(["setup", *(options or ["--repo", stage.world.repository]), *check])
    said = stage.capsys.readouterr()
    assert code in (2, 3)
    assert message in said.err
    assert (said.out, said.err.count("pullrank:")) == ("", 1)
    assert stage.writes() == []


def test_a_repository_without_our_workflows_is_not_changed(stage):
    stage.world.commit(dict.fromkeys(SHIPPED) | {".github/workflows/build.yml": "name: Build\non: push\njobs: {}\n"})
    code, _, err = stage.call()
    assert code == 2
    assert "has none of PullRank's workflows" in err
    assert stage.writes() == []


def test_an_outage_ends_setup_and_the_next_run_continues(stage):
    stage.server.fail("POST */rulesets", Failure(status=502))
    code, out, err = stage.call()
    assert (code, out) == (3, "")
    assert "502" in err
    assert set(stage.states().values()) == {"ok", "changed"}


# Policies.


def test_a_blocking_policy_of_the_organisation_is_reported_and_left_alone(ready):
    rule = {
        "type": "restrict_action_events",
        "parameters": {"allowed_events": sorted(set(EVENTS) - {"pull_request_target"})},
    }
    theirs = {"id": 1, "name": "No targets", "target": "actions", "source_type": "Organization", "source": "acme"}
    ready.world.settings["policies"].append(theirs | {"enforcement": "active", "rules": [rule]})
    assert ready.states()["event policy"] == "missing"
    assert "'No targets' blocks pull_request_target" in ready.call("--check")[1]
    assert ready.world.settings["policies"][1]["rules"] == [rule]


def is_told_that_policies_are_unclear(stage, token=None):
    code, out, _ = stage.call("--check", token=token)
    assert code == 1 and "is ready" not in out
    assert re.search(r"^cannot be seen +event policy +GitHub answers 404", out, re.MULTILINE)
    assert "  event policy: Settings → Actions → Policies → New policy: PullRank" in out


def test_a_404_for_policies_never_counts_as_ok(ready):
    is_told_that_policies_are_unclear(ready, ready.fine_grained(actions="read", contents="read", issues="read"))
    assert ready.states("--check")["event policy"] == "ok"
    ready.world.settings["policies"] = None
    is_told_that_policies_are_unclear(ready)
    assert ready.call()[0] == 1 and ready.writes() == []


def own_policy(**changes: Any) -> dict[str, Any]:
    return {"source_type": "Repository", **mend_policy(None), **changes}


@pytest.mark.parametrize(
    ("policies", "faults"),
    [
        ([own_policy()], []),
        ([], [f"there is no policy '{POLICY}'"]),
        ([own_policy(source_type="Organization")], [f"there is no policy '{POLICY}'"]),
        ([own_policy(conditions={})], []),
        ([own_policy(), {"name": "x", "enforcement": "disabled", "rules": [{"type": "restrict_action_events"}]}], []),
        (
            [own_policy(), {"name": "x", "enforcement": "active", "rules": [{"type": "restrict_action_events"}]}],
            [f"'x' blocks {event}" for event in EVENTS],
        ),
        (
            [own_policy(), {"name": "x", "enforcement": "active", "rules": [{"type": "restrict_actions_actors"}]}],
            [],
        ),
    ],
)
def test_every_active_policy_must_let_our_events_pass(policies, faults):
    assert find_policy_faults(policies) == faults


# Single rules.


def test_a_new_ruleset_has_no_faults_and_needs_no_repair():
    made = mend_ruleset(None, MAIN_RULESET)
    assert find_ruleset_faults(made, MAIN_RULESET) == []
    assert mend_ruleset(made, MAIN_RULESET) == made


def test_setup_keeps_an_organisers_extra_rule_parameters():
    made = mend_ruleset(None, MAIN_RULESET)
    theirs = {
        **made["rules"][2]["parameters"],
        "required_review_thread_resolution": True,
        "allowed_merge_methods": ["squash"],
    }
    seen = made | {"rules": [{"type": "pull_request", "parameters": theirs | {"require_code_owner_review": False}}]}
    assert (
        find_ruleset_faults(
            made | {"rules": [*made["rules"][:2], {"type": "pull_request", "parameters": theirs}]}, MAIN_RULESET
        )
        == []
    )
    assert mend_ruleset(seen, MAIN_RULESET)["rules"][0] == {"type": "pull_request", "parameters": theirs}


def test_an_admin_may_still_change_the_settings_file_on_main():
    (admin,) = MAIN_RULESET["bypass_actors"]
    assert (admin["actor_id"], admin["actor_type"], admin["bypass_mode"]) == (5, "RepositoryRole", "always")
    guide = (ROOT / "site/pages/organisers.md").read_text()
    assert "Commit directly to the main branch" in guide and ".github/pullrank.yml" in guide


def test_setup_removes_an_exception_for_main_and_keeps_the_others():
    seen = MAIN_RULESET | {"conditions": {"ref_name": {"include": [], "exclude": ["~DEFAULT_BRANCH", "refs/heads/x"]}}}
    assert mend_ruleset(seen, MAIN_RULESET)["conditions"]["ref_name"] == {
        "include": ["~DEFAULT_BRANCH"],
        "exclude": ["refs/heads/x"],
    }


def test_setup_does_not_write_bypasses_it_cannot_see():
    seen = {key: value for key, value in MAIN_RULESET.items() if key != "bypass_actors"}
    assert "bypass_actors" not in mend_ruleset(seen, MAIN_RULESET)


def test_a_new_environment_gets_only_its_branch_policy():
    assert mend_environment(None) == {
        "deployment_branch_policy": {"protected_branches": False, "custom_branch_policies": True}
    }


def test_a_manually_disabled_workflow_is_reported_and_stays_disabled():
    states = dict.fromkeys(WORKFLOWS, "active") | {
        "evaluate.yml": "disabled_manually",
        "reconcile.yml": "disabled_inactivity",
    }
    assert find_workflow_faults(states) == ["evaluate.yml: disabled_manually", "reconcile.yml: disabled_inactivity"]
    assert find_idle(states) == ["reconcile.yml"]


# Messages.


def test_the_check_prints_a_table_the_clicks_and_the_needed_token(stage):
    code, out, _ = stage.call("--check", token=stage.fine_grained(contents="read", issues="read"))
    assert code == 1
    assert re.search(r"^missing +labels +there is no label judging", out, re.MULTILINE)
    assert re.search(r"^cannot be seen +approval +the token lacks the permission Administration", out, re.MULTILINE)
    assert "  labels: Issues → Labels → New label" in out
    assert "  default branch:" not in out
    assert "for this repository only" in out
    assert "\x1b" not in out


def test_setup_of_a_ready_repository_says_what_to_do_next(ready):
    assert ready.call()[1].endswith(f"{ready.server.url}/acme/kernels is ready: open a pull request.\n")


@pytest.mark.parametrize(
    "url",
    ["https://github.com/acme/kernels.git", "https://github.com/acme/kernels", "git@github.com:acme/kernels.git",
     "ssh://git@github.com/acme/kernels/", "https://name@github.com/acme/kernels.git"],
)  # fmt: skip
def test_setup_takes_the_repository_from_the_clones_origin(url, ready, tmp_path):
    for command in (["init", "--quiet"], ["remote", "add", "origin", url]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    ready.patch.chdir(tmp_path)
    assert cli.run(["setup", "--check", "--json"]) == 0
    assert json.loads(ready.capsys.readouterr().out)["repository"] == "acme/kernels"


def test_the_repository_must_be_named_outside_a_clone(ready, tmp_path):
    ready.patch.chdir(tmp_path)
    assert cli.run(["setup", "--check"]) == 2
    assert "no repository: pass --repo OWNER/NAME" in ready.capsys.readouterr().err


def test_setup_uses_the_token_of_gh_if_none_is_set(ready, tmp_path):
    program = tmp_path / "bin" / "gh"
    program.parent.mkdir()
    host = urlsplit(ready.server.url).netloc
    program.write_text(
        f"#!/bin/sh\n[ \"$*\" = 'auth token --hostname {host}' ] && echo {ready.world.personal_token().value}\n"
    )
    program.chmod(0o755)
    ready.patch.delenv("GH_TOKEN")
    ready.patch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    assert cli.run(["setup", "--repo", "acme/kernels", "--check"]) == 0


# The shipped workflows fit the settings.


def shipped() -> Iterator[tuple[str, dict[Any, Any]]]:
    for path, content in SHIPPED.items():
        yield path, yaml.safe_load(content)


def test_the_policy_allows_every_workflow_event_but_no_pull_request_from_forks():
    heard = {event for _, workflow in shipped() for event in workflow[True]}  # YAML reads the key `on` as true
    assert heard <= set(EVENTS)
    assert not [event for event in EVENTS if event.startswith("pull_request") and event != "pull_request_target"]


def test_every_shipped_action_is_pinned_and_githubs_or_ours():
    files = [*ROOT.glob(".github/workflows/*.yml"), *ROOT.glob(".github/actions/*/action.yml")]
    used = [use for file in files for use in re.findall(r"uses: (\S+)", file.read_text())]
    assert used
    assert [use for use in used if not re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40}|\$/\.github/actions/\w+", use)] == []


def test_every_workflow_that_setup_expects_is_shipped():
    assert {f".github/workflows/{name}" for name in WORKFLOWS} <= SHIPPED.keys()


def test_setup_makes_exactly_the_labels_that_templates_use():
    given = set()
    for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"):
        given |= set(yaml.safe_load(path.read_text()).get("labels", ()))
    assert given == LABELS.keys()


def test_no_submission_has_a_code_owner():
    file = ROOT / ".github" / "CODEOWNERS"
    lines = [line.split("#")[0].split() for line in file.read_text().splitlines()] if file.exists() else []
    patterns = [(line[0], line[1:]) for line in lines if line]
    owners: list[str] = []
    for pattern, owning in patterns:
        if pattern in ("*", "/submissions/", "/submissions/**", "submissions/"):
            owners = owning
    assert owners == []
