"""The settings of a repository's Actions that `pullrank setup` reads and writes: permissions and policies."""

from __future__ import annotations

from typing import Any

from tests.github_server.routes import Answer, Call, Refusal, invalid, route
from tests.github_server.settings_api import ADMIN, LOOK, setting, without_rules

Json = dict[str, Any]


@route("GET /actions/permissions", LOOK)
def get_permissions(call: Call) -> Answer:
    permissions = setting(call, "permissions")
    return Answer(body=permissions if permissions["enabled"] else {"enabled": False})


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
    """The machine-readable description lacks these paths; the bodies follow GitHub's reference.

    Set `world.settings["policies"]` to None for a GitHub without them.
    """
    policies = call.require(setting(call, "policies"))
    # A repository sees an organisation's policies only in lists; a list of its own policies may leave out the rules.
    shown = [each if each["source_type"] != "Repository" else without_rules(each) for each in policies]
    return Answer(body={"total_count": len(policies), "policies": shown})


@route("POST /actions/policies", ADMIN)
def add_policy(call: Call) -> Answer:
    policies = call.require(setting(call, "policies"))
    _require_policy(call.body, required=("name", "enforcement"))
    made = {"id": call.world.next_id(), "target": "actions", "source_type": "Repository"}
    policies.append(made | {"source": call.world.repository, "rules": []} | call.body)
    return Answer(201, policies[-1])


@route("GET /actions/policies/{policy_id}", LOOK)
def get_policy(call: Call) -> Answer:
    return Answer(body=_find_policy(call))


@route("PUT /actions/policies/{policy_id}", ADMIN)
def put_policy(call: Call) -> Answer:
    policy = _find_policy(call)
    _require_policy(call.body, required=())
    policy.update(call.body)
    return Answer(body=policy)


def _find_policy(call: Call) -> Json:
    own = [each for each in setting(call, "policies") or () if each["source_type"] == "Repository"]
    found: Json = call.require(next((each for each in own if each["id"] == call.number("policy_id")), None))
    return found


_POLICY_KEYS = {"name", "enforcement", "conditions", "rules"}
_POLICY_EVENTS = {
    "branch_protection_rule", "check_run", "check_suite", "create", "delete", "deployment", "deployment_status",
    "discussion", "discussion_comment", "fork", "gollum", "image_version", "issue_comment", "issues", "label",
    "merge_group", "milestone", "page_build", "project", "project_card", "project_column", "public", "pull_request",
    "pull_request_review", "pull_request_review_comment", "pull_request_target", "push", "registry_package", "release",
    "repository_dispatch", "schedule", "status", "watch", "workflow_call", "workflow_dispatch", "workflow_run",
}  # fmt: skip


def _require_policy(body: Json, required: tuple[str, ...]) -> None:
    if not set(required) <= body.keys() <= _POLICY_KEYS:
        raise invalid("Invalid policy", "name")
    if body.get("enforcement", "active") not in ("active", "disabled"):
        raise invalid("Evaluate is for enterprises", "enforcement")
    path = body.get("conditions", {}).get("workflow_path", {"include": ["~ALL"], "exclude": []})
    if path.keys() != {"include", "exclude"} or not (path["include"] or path["exclude"]) or "~ALL" in path["exclude"]:
        raise invalid("Invalid workflow path", "conditions")
    for rule in body.get("rules", ()):
        parameters = rule.get("parameters", {})
        match rule["type"]:
            case "restrict_action_events" if set(parameters["allowed_events"]) <= _POLICY_EVENTS:
                pass
            case "restrict_actions_actors" if all(
                each.keys() == {"id", "type"} for each in parameters["allowed_actors"]
            ):
                pass
            case _:
                raise invalid("Invalid rule", "rules")
