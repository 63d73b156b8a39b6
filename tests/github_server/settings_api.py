"""The repository's settings that `pullrank setup` reads and writes, as REST.

Those of Actions are in `actions_settings_api.py`.  `world.settings` holds all of them under the names below, in
GitHub's form, for tests to look at.
"""

from __future__ import annotations

import base64
from copy import deepcopy
from typing import Any

from nacl.public import PrivateKey, SealedBox

from tests.github_server import shapes
from tests.github_server.routes import Answer, Call, Refusal, invalid, route
from tests.github_server.world import User

Json = dict[str, Any]

ADMIN = "administration:write"
LOOK = "administration:read"

FRESH: Json = {
    "permissions": {"enabled": True, "allowed_actions": "all", "sha_pinning_required": False},
    "selected-actions": {"github_owned_allowed": True, "verified_allowed": False, "patterns_allowed": []},
    "workflow": {"default_workflow_permissions": "write", "can_approve_pull_request_reviews": False},
    "fork-pr-contributor-approval": {"approval_policy": "first_time_contributors"},
    "rulesets": {},
    "environments": {},
    "policies": [],
    "pages": None,
    "private-vulnerability-reporting": {"enabled": False},
    "merging": {
        "allow_squash_merge": True,
        "allow_merge_commit": True,
        "allow_rebase_merge": True,
        "allow_update_branch": False,
    },
}
"""The settings of a new public repository."""

SITE: Json = {
    "status": None,
    "cname": None,
    "custom_404": False,
    "public": True,
    "build_type": "workflow",
    "html_url": "https://acme.github.io/kernels/",
}
"""GitHub Pages, after it was enabled."""

ACTIONS_APP = 15368
_NO_PLAN = "Upgrade to GitHub Pro or make this repository public to enable this feature."
_NO_PAGES = "Your current plan does not support GitHub Pages for this repository."
_NO_PROTECTION = (
    "Failed to create the environment protection rule. Please ensure the billing plan supports the required "
    "protection rules."
)


def setting(call: Call, name: str) -> Any:
    return call.world.settings.setdefault(name, deepcopy(FRESH[name]))


def require_plan(call: Call, message: str = _NO_PLAN, status: int = 403) -> None:
    """Refuse what a private repository has only in a paid plan."""
    if shapes.repository(call.world)["private"]:
        raise Refusal(status, message)


@route("GET ")
def get_repository(call: Call) -> Answer:
    return Answer(body=_repository(call))


@route("PATCH ", ADMIN)
def edit_repository(call: Call) -> Answer:
    merging = setting(call, "merging")
    merging.update({key: call.body[key] for key in merging.keys() & call.body.keys()})
    rest = {key: value for key, value in call.body.items() if key not in merging}
    call.world.settings.setdefault("repository", {}).update(rest)
    return Answer(body=_repository(call))


def _repository(call: Call) -> Json:
    """The repository; only accounts with write access see the settings for merging."""
    role = call.token.user.permission
    may = {"admin": role == "admin", "push": role in ("admin", "write"), "pull": True}
    return shapes.repository(call.world) | {"permissions": may} | (setting(call, "merging") if may["push"] else {})


@route("GET /labels/{name}", "issues:read", "pull-requests:read")
def get_label(call: Call) -> Answer:
    call.require(call.world.labels.get(call.path["name"]))
    return Answer(body=shapes.label(call.world, call.path["name"]))


@route("POST /labels", "issues:write", "pull-requests:write")
def add_label(call: Call) -> Answer:
    name = call.body["name"]
    if name in call.world.labels:
        raise invalid("already exists", "name", "already_exists")
    call.world.labels[name] = _label(call)
    return Answer(201, shapes.label(call.world, name))


def _label(call: Call) -> Json:
    known = {key: call.body[key] for key in ("name", "color", "description") if key in call.body}
    return {"id": call.world.next_id()} | known


# Rules, environments, pages


@route("GET /rulesets")
def list_rulesets(call: Call) -> Answer:
    require_plan(call)
    return call.page(list(setting(call, "rulesets").values()), without_rules)


def without_rules(ruleset: Json) -> Json:
    return {key: value for key, value in ruleset.items() if key not in ("rules", "conditions", "bypass_actors")}


@route("POST /rulesets", ADMIN)
def add_ruleset(call: Call) -> Answer:
    require_plan(call)
    _require_ruleset(call.body)
    rulesets = setting(call, "rulesets")
    if any(ruleset["name"] == call.body["name"] for ruleset in rulesets.values()):
        raise invalid("Name must be unique", "name")
    made = {"id": call.world.next_id(), "source_type": "Repository", "source": call.world.repository, **call.body}
    rulesets[made["id"]] = made
    return Answer(201, made)


@route("GET /rulesets/{ruleset_id}")
def get_ruleset(call: Call) -> Answer:
    """A ruleset; only admins see who may bypass it."""
    found = call.require(setting(call, "rulesets").get(call.number("ruleset_id")))
    is_whole = call.token.user.permission == "admin"
    return Answer(body={key: value for key, value in found.items() if is_whole or key != "bypass_actors"})


def _require_ruleset(body: Json) -> None:
    if ACTIONS_APP in [actor.get("actor_id") for actor in body.get("bypass_actors", ())]:
        raise invalid("Actor GitHub Actions integration must be part of the ruleset source or owner organization")


@route("PUT /rulesets/{ruleset_id}", ADMIN)
def put_ruleset(call: Call) -> Answer:
    _require_ruleset(call.body)
    ruleset = call.require(setting(call, "rulesets").get(call.number("ruleset_id")))
    ruleset.update(call.body)
    return Answer(body=ruleset)


@route("GET /environments/{environment_name}", "actions:read")
def get_environment(call: Call) -> Answer:
    return Answer(body=_environment(call, _find_environment(call)))


@route("PUT /environments/{environment_name}", ADMIN)
def put_environment(call: Call) -> Answer:
    """Make or replace an environment: whatever the request leaves out is off afterwards."""
    body, name = call.body or {}, call.path["environment_name"]
    if body.get("deployment_branch_policy"):
        require_plan(call, _NO_PROTECTION, 422)
    fresh = {"id": call.world.next_id(), "name": name, "branches": [], "secrets": {}, "variables": {}}
    environment = setting(call, "environments").setdefault(name, fresh)
    environment["deployment_branch_policy"] = body.get("deployment_branch_policy")
    environment["protection_rules"] = _protection_rules(body)
    return Answer(body=_environment(call, environment))


def _protection_rules(body: Json) -> list[Json]:
    rules: list[Json] = []
    if body.get("wait_timer"):
        rules.append({"id": 1, "type": "wait_timer", "wait_timer": body["wait_timer"]})
    if body.get("reviewers"):
        reviewers = [{"type": each["type"], "reviewer": {"id": each["id"]}} for each in body["reviewers"]]
        rules.append(
            {"id": 2, "type": "required_reviewers", "reviewers": reviewers}
            | {"prevent_self_review": body.get("prevent_self_review", False)}
        )
    return rules + ([{"id": 3, "type": "branch_policy"}] if body.get("deployment_branch_policy") else [])


@route("GET /environments/{environment_name}/deployment-branch-policies", "actions:read")
def list_branch_policies(call: Call) -> Answer:
    return call.page(_find_environment(call)["branches"], lambda branch: branch, "branch_policies")


@route("POST /environments/{environment_name}/deployment-branch-policies", ADMIN)
def add_branch_policy(call: Call) -> Answer:
    policy = {"id": call.world.next_id(), "name": call.body["name"], "type": call.body.get("type", "branch")}
    _find_environment(call)["branches"].append(policy)
    return Answer(body=policy)


@route("GET /environments/{environment_name}/secrets/public-key", "environments:read")
def get_public_key(call: Call) -> Answer:
    _find_environment(call)
    return Answer(body={"key_id": "1", "key": base64.b64encode(bytes(_seal(call).public_key)).decode()})


def _seal(call: Call) -> PrivateKey:
    made: PrivateKey = call.world.settings.setdefault("seal", PrivateKey.generate())
    return made


@route("PUT /environments/{environment_name}/secrets/{secret_name}", "environments:write")
def put_secret(call: Call) -> Answer:
    """Store a secret, sealed with the public key; tests read the decrypted value."""
    text = SealedBox(_seal(call)).decrypt(base64.b64decode(call.body["encrypted_value"])).decode()
    _find_environment(call)["secrets"][call.path["secret_name"]] = text
    return Answer(201, {})


@route("GET /environments/{environment_name}/variables", "environments:read")
def list_environment_variables(call: Call) -> Answer:
    found = _find_environment(call)["variables"].items()
    return call.page([{"name": name, "value": value, **shapes.BORN} for name, value in found], dict, "variables")


@route("POST /environments/{environment_name}/variables", "environments:write")
def add_environment_variable(call: Call) -> Answer:
    variables = _find_environment(call)["variables"]
    if call.body["name"] in variables:
        raise Refusal(409, "Already exists - Variable already exists")
    variables[call.body["name"]] = call.body["value"]
    return Answer(201, {})


@route("PATCH /environments/{environment_name}/variables/{name}", "environments:write")
def edit_environment_variable(call: Call) -> Answer:
    variables = _find_environment(call)["variables"]
    call.require(variables.get(call.path["name"]))
    variables[call.path["name"]] = call.body["value"]
    return Answer(204)


@route("GET //app", "app:read")
def get_app(call: Call) -> Answer:
    app = call.world.apps[call.token.user.login]
    return Answer(body=shapes.app(call.world, User(1, f"{app.slug}[bot]")))


@route("GET /installation", "app:read")
def get_installation(call: Call) -> Answer:
    app = call.world.apps[call.token.user.login]
    page = f"{call.world.web_url}/settings/installations/1"
    return Answer(body={"id": 1, "html_url": page, "permissions": call.require(app.permissions), **shapes.BORN})


def _find_environment(call: Call) -> Json:
    found: Json = call.require(setting(call, "environments").get(call.path["environment_name"]))
    return found


def _environment(call: Call, environment: Json) -> Json:
    shown = {key: environment[key] for key in ("id", "name", "deployment_branch_policy")}
    rules = [{"node_id": f"GA_{rule['id']}", **rule} for rule in environment["protection_rules"]]
    page = f"{call.world.web_url}/{call.world.repository}/deployments/activity_log"
    return {**shown, "protection_rules": rules, "node_id": f"EN_{shown['id']}", "html_url": page, **shapes.BORN}


@route("GET /pages", "pages:read")
def get_pages(call: Call) -> Answer:
    return Answer(body=call.require(setting(call, "pages")))


@route("POST /pages", "pages:write")
def add_pages(call: Call) -> Answer:
    if setting(call, "pages"):
        raise Refusal(409, "GitHub Pages is already enabled.")
    require_plan(call, _NO_PAGES, 422)
    owner, name = call.world.repository.split("/")
    facts = {"status": None, "cname": None, "custom_404": False, "public": True, "build_type": "legacy"}
    call.world.settings["pages"] = facts | {"html_url": f"https://{owner}.github.io/{name}/"} | call.body
    return Answer(201, call.world.settings["pages"])


@route("PUT /pages", "pages:write")
def put_pages(call: Call) -> Answer:
    call.require(setting(call, "pages")).update(call.body)
    return Answer(204)


@route("GET /private-vulnerability-reporting", LOOK)
def get_reporting(call: Call) -> Answer:
    return Answer(body=setting(call, "private-vulnerability-reporting"))


@route("PUT /private-vulnerability-reporting", ADMIN)
def put_reporting(call: Call) -> Answer:
    setting(call, "private-vulnerability-reporting")["enabled"] = True
    return Answer(204)
