"""What `pullrank setup` reads and writes: the repository's settings, as REST.

All of it is kept in `world.settings` under the names below, as GitHub would tell it; a test looks there.
"""

from __future__ import annotations

from typing import Any

from tests.github_server import shapes
from tests.github_server.routes import Answer, Call, Refusal, invalid, missing, route

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
    "variables": {},
    "private-vulnerability-reporting": {"enabled": False},
}
"""A new public repository's."""


def setting(call: Call, name: str) -> Any:
    return call.world.settings.setdefault(name, _copy(FRESH[name]))


def _copy(value: Any) -> Any:
    return dict(value) if isinstance(value, dict) else list(value) if isinstance(value, list) else value


@route("GET ")
def get_repository(call: Call) -> Answer:
    return Answer(body=shapes.repository(call.world))


@route("PATCH ", ADMIN)
def edit_repository(call: Call) -> Answer:
    call.world.settings.setdefault("repository", {}).update(call.body)
    return Answer(body=shapes.repository(call.world))


@route("GET //rate_limit")
def get_rate_limit(call: Call) -> Answer:
    token = call.token
    core = {"limit": token.limit, "used": token.used, "remaining": token.remaining, "reset": 0}
    return Answer(body={"resources": {"core": core, "search": core}, "rate": core})


@route("GET /labels", "issues:read", "pull-requests:read")
def list_labels(call: Call) -> Answer:
    return call.page(list(call.world.labels), lambda name: shapes.label(call.world, name))


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


@route("PATCH /labels/{name}", "issues:write", "pull-requests:write")
def edit_label(call: Call) -> Answer:
    old = call.require(call.world.labels.pop(call.path["name"], None))
    name = call.body.get("new_name", call.path["name"])
    call.world.labels[name] = old | _label(call) | {"name": name}
    return Answer(body=shapes.label(call.world, name))


def _label(call: Call) -> Json:
    known = {key: call.body[key] for key in ("name", "color", "description") if key in call.body}
    return {"id": call.world.next_id()} | known


# Actions


@route("GET /actions/permissions", LOOK)
def get_permissions(call: Call) -> Answer:
    return Answer(body=setting(call, "permissions"))


@route("PUT /actions/permissions", ADMIN)
def put_permissions(call: Call) -> Answer:
    return _put(call, "permissions")


@route("GET /actions/permissions/selected-actions", LOOK)
def get_selected_actions(call: Call) -> Answer:
    if setting(call, "permissions")["allowed_actions"] != "selected":
        raise Refusal(409, "Conflict")
    return Answer(body=setting(call, "selected-actions"))


@route("PUT /actions/permissions/selected-actions", ADMIN)
def put_selected_actions(call: Call) -> Answer:
    if setting(call, "permissions")["allowed_actions"] != "selected":
        raise Refusal(409, "Conflict")
    return _put(call, "selected-actions")


@route("GET /actions/permissions/workflow", LOOK)
def get_workflow_permissions(call: Call) -> Answer:
    return Answer(body=setting(call, "workflow"))


@route("PUT /actions/permissions/workflow", ADMIN)
def put_workflow_permissions(call: Call) -> Answer:
    return _put(call, "workflow")


@route("GET /actions/permissions/fork-pr-contributor-approval", LOOK)
def get_approval(call: Call) -> Answer:
    return Answer(body=setting(call, "fork-pr-contributor-approval"))


@route("PUT /actions/permissions/fork-pr-contributor-approval", ADMIN)
def put_approval(call: Call) -> Answer:
    return _put(call, "fork-pr-contributor-approval")


def _put(call: Call, name: str) -> Answer:
    setting(call, name).update(call.body)
    return Answer(204)


@route("GET /actions/policies", LOOK)
def list_policies(call: Call) -> Answer:
    """GitHub's description lacks this path; set `world.settings["policies"]` to None for a GitHub without it."""
    policies = setting(call, "policies")
    if policies is None:
        raise missing()
    return Answer(body={"total_count": len(policies), "policies": policies})


@route("POST /actions/policies", ADMIN)
def add_policy(call: Call) -> Answer:
    policies = setting(call, "policies")
    if policies is None:
        raise missing()
    policies.append({"id": call.world.next_id(), **call.body})
    return Answer(201, policies[-1])


@route("PUT /actions/policies/{policy_id}", ADMIN)
def put_policy(call: Call) -> Answer:
    policies = setting(call, "policies") or []
    policy = call.require(next((each for each in policies if each["id"] == call.number("policy_id")), None))
    policy.update(call.body)
    return Answer(body=policy)


@route("GET /actions/variables", "variables:read", "actions:read")
def list_variables(call: Call) -> Answer:
    return call.page(list(setting(call, "variables").values()), lambda variable: variable, "variables")


@route("POST /actions/variables", "variables:write")
def add_variable(call: Call) -> Answer:
    moment = shapes.time(call.world.clock())
    setting(call, "variables")[call.body["name"]] = {**call.body, "created_at": moment, "updated_at": moment}
    return Answer(201, {})


@route("GET /actions/runners", LOOK)
def list_runners(call: Call) -> Answer:
    return call.page(call.world.settings.setdefault("runners", []), lambda runner: runner, "runners")


@route("POST /actions/runners/generate-jitconfig", ADMIN)
def make_jit_config(call: Call) -> Answer:
    labels = [{"name": name, "type": "custom"} for name in call.body["labels"]]
    runner = {"id": call.world.next_id(), "name": call.body["name"], "os": "linux", "status": "offline", "busy": False}
    runner["labels"] = labels
    call.world.settings.setdefault("runners", []).append(runner)
    return Answer(201, {"runner": runner, "encoded_jit_config": "eyJqaXQiOiAidGVzdCJ9"})


@route("GET //orgs/{org}/actions/runner-groups", LOOK)
def list_runner_groups(call: Call) -> Answer:
    groups = call.world.settings.get("runner-groups")
    if groups is None:
        raise missing()  # a personal account has none
    return call.page(groups, lambda group: group, "runner_groups")


# Rules, environments, pages


@route("GET /rulesets")
def list_rulesets(call: Call) -> Answer:
    return call.page(list(setting(call, "rulesets").values()), _without_rules)


def _without_rules(ruleset: Json) -> Json:
    return {key: value for key, value in ruleset.items() if key not in ("rules", "conditions", "bypass_actors")}


@route("POST /rulesets", ADMIN)
def add_ruleset(call: Call) -> Answer:
    rulesets = setting(call, "rulesets")
    if any(ruleset["name"] == call.body["name"] for ruleset in rulesets.values()):
        raise invalid("Name must be unique", "name")
    made = {"id": call.world.next_id(), "source_type": "Repository", "source": call.world.repository, **call.body}
    rulesets[made["id"]] = made
    return Answer(201, made)


@route("GET /rulesets/{ruleset_id}")
def get_ruleset(call: Call) -> Answer:
    return Answer(body=call.require(setting(call, "rulesets").get(call.number("ruleset_id"))))


@route("PUT /rulesets/{ruleset_id}", ADMIN)
def put_ruleset(call: Call) -> Answer:
    ruleset = call.require(setting(call, "rulesets").get(call.number("ruleset_id")))
    ruleset.update(call.body)
    return Answer(body=ruleset)


@route("GET /environments", "actions:read")
def list_environments(call: Call) -> Answer:
    return call.page(list(setting(call, "environments").values()), _environment, "environments")


@route("GET /environments/{environment_name}", "actions:read")
def get_environment(call: Call) -> Answer:
    return Answer(body=_environment(_find_environment(call)))


@route("PUT /environments/{environment_name}", ADMIN)
def put_environment(call: Call) -> Answer:
    name = call.path["environment_name"]
    fresh = {"id": call.world.next_id(), "name": name, "deployment_branch_policy": None, "branches": [], "secrets": []}
    environment = setting(call, "environments").setdefault(name, fresh)
    wanted = (call.body or {}).get("deployment_branch_policy", environment["deployment_branch_policy"])
    environment["deployment_branch_policy"] = wanted
    return Answer(body=_environment(environment))


@route("GET /environments/{environment_name}/deployment-branch-policies", "actions:read")
def list_branch_policies(call: Call) -> Answer:
    return call.page(_find_environment(call)["branches"], lambda branch: branch, "branch_policies")


@route("POST /environments/{environment_name}/deployment-branch-policies", ADMIN)
def add_branch_policy(call: Call) -> Answer:
    policy = {"id": call.world.next_id(), "name": call.body["name"], "type": call.body.get("type", "branch")}
    _find_environment(call)["branches"].append(policy)
    return Answer(body=policy)


@route("GET /environments/{environment_name}/secrets", "environments:read")
def list_secrets(call: Call) -> Answer:
    names = _find_environment(call)["secrets"]
    return call.page(names, lambda name: {"name": name}, "secrets")


def _find_environment(call: Call) -> Json:
    found: Json = call.require(setting(call, "environments").get(call.path["environment_name"]))
    return found


def _environment(environment: Json) -> Json:
    return {key: environment[key] for key in ("id", "name", "deployment_branch_policy")}


@route("GET /pages", "pages:read")
def get_pages(call: Call) -> Answer:
    return Answer(body=call.require(setting(call, "pages")))


@route("POST /pages", "pages:write")
def add_pages(call: Call) -> Answer:
    if setting(call, "pages"):
        raise Refusal(409, "GitHub Pages is already enabled.")
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
