"""Reduce GitHub's published OpenAPI description to the requests that we use, as plain JSON Schema.

    npm pack @octokit/openapi && tar xf octokit-openapi-*.tgz
    python -m tests.github_server.reduce_openapi package/generated/api.github.com.json

writes `openapi.json` next to this file:

    license                           of the description, which requires this notice
    version                           of the description
    operations["GET /repos/…"]        query: {name: schema}, body: schema, answers: {status: schema or null}
    webhooks["issue-comment-created"] schema
    schemas[name]                     the schemas that others refer to

Descriptions are left out.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

Json = dict[str, Any]

TARGET = Path(__file__).with_name("openapi.json")

REPO = "/repos/{owner}/{repo}"
USED = f"""
GET /app
GET /user
GET /users/{{username}}
GET {REPO}
PATCH {REPO}
GET {REPO}/activity
GET {REPO}/installation
GET {REPO}/pulls
POST {REPO}/pulls
POST {REPO}/forks
POST {REPO}/merge-upstream
PATCH {REPO}/pulls/{{pull_number}}
GET {REPO}/pulls/{{pull_number}}/files
PUT {REPO}/pulls/{{pull_number}}/merge
GET {REPO}/issues/comments
POST {REPO}/issues/{{issue_number}}/comments
PATCH {REPO}/issues/comments/{{comment_id}}
DELETE {REPO}/issues/comments/{{comment_id}}
POST {REPO}/issues/comments/{{comment_id}}/reactions
POST {REPO}/labels
GET {REPO}/labels/{{name}}
GET {REPO}/collaborators/{{username}}/permission
GET {REPO}/git/blobs/{{file_sha}}
POST {REPO}/git/blobs
GET {REPO}/git/trees/{{tree_sha}}
POST {REPO}/git/trees
GET {REPO}/git/commits/{{commit_sha}}
POST {REPO}/git/commits
GET {REPO}/git/ref/{{ref}}
POST {REPO}/git/refs
PATCH {REPO}/git/refs/{{ref}}
POST {REPO}/check-runs
PATCH {REPO}/check-runs/{{check_run_id}}
GET {REPO}/commits/{{ref}}/check-runs
POST {REPO}/actions/workflows/{{workflow_id}}/dispatches
GET {REPO}/actions/workflows/{{workflow_id}}/runs
PUT {REPO}/actions/workflows/{{workflow_id}}/enable
GET {REPO}/actions/workflows
POST {REPO}/actions/runs/{{run_id}}/cancel
GET {REPO}/actions/runs/{{run_id}}/jobs
GET {REPO}/actions/runs/{{run_id}}/artifacts
GET {REPO}/actions/artifacts/{{artifact_id}}/{{archive_format}}
GET {REPO}/actions/permissions
PUT {REPO}/actions/permissions
GET {REPO}/actions/permissions/selected-actions
PUT {REPO}/actions/permissions/selected-actions
GET {REPO}/actions/permissions/workflow
PUT {REPO}/actions/permissions/workflow
GET {REPO}/actions/permissions/fork-pr-contributor-approval
PUT {REPO}/actions/permissions/fork-pr-contributor-approval
GET {REPO}/rulesets
POST {REPO}/rulesets
GET {REPO}/rulesets/{{ruleset_id}}
PUT {REPO}/rulesets/{{ruleset_id}}
GET {REPO}/environments/{{environment_name}}
PUT {REPO}/environments/{{environment_name}}
GET {REPO}/environments/{{environment_name}}/deployment-branch-policies
POST {REPO}/environments/{{environment_name}}/deployment-branch-policies
GET {REPO}/environments/{{environment_name}}/secrets/public-key
PUT {REPO}/environments/{{environment_name}}/secrets/{{secret_name}}
GET {REPO}/environments/{{environment_name}}/variables
POST {REPO}/environments/{{environment_name}}/variables
PATCH {REPO}/environments/{{environment_name}}/variables/{{name}}
GET {REPO}/pages
POST {REPO}/pages
PUT {REPO}/pages
GET {REPO}/private-vulnerability-reporting
PUT {REPO}/private-vulnerability-reporting
""".split("\n")[1:-1]  # fmt: skip

EVENTS = (
    "issue-comment-created",
    "issue-comment-edited",
    "pull-request-closed",
    "pull-request-converted-to-draft",
    "pull-request-opened",
    "pull-request-ready-for-review",
    "pull-request-reopened",
    "pull-request-synchronize",
)

KEPT = {
    "$ref", "additionalProperties", "allOf", "anyOf", "enum", "format", "items", "maxItems", "maxLength", "maximum",
    "minItems", "minLength", "minimum", "not", "oneOf", "pattern", "properties", "required", "type",
}  # fmt: skip


class Reducer:
    """Takes parts of a description, and all schemas that they refer to."""

    def __init__(self, description: Json) -> None:
        self.description = description
        self.schemas: Json = {}

    def operation(self, name: str) -> Json:
        method, path = name.split(" ")
        found = self.description["paths"][path][method.lower()]
        parameters = [self.followed(each) for each in found.get("parameters", [])]
        answers = {status: self.content(answer) for status, answer in found["responses"].items()}
        reduced: Json = {
            "query": {each["name"]: self.schema(each["schema"]) for each in parameters if each["in"] == "query"},
            "answers": answers,
        }
        if "requestBody" in found:
            reduced["body"] = self.content(found["requestBody"])
            reduced["body_required"] = self.followed(found["requestBody"]).get("required", False)
        return reduced

    def webhook(self, name: str) -> Json | None:
        return self.content(self.description["x-webhooks"][name]["post"]["requestBody"])

    def content(self, holder: Json) -> Json | None:
        """The schema of a body, or None for none."""
        kinds = self.followed(holder).get("content", {})
        return self.schema(kinds["application/json"]["schema"]) if "application/json" in kinds else None

    def followed(self, value: Json) -> Json:
        """The value itself, or the one that it refers to."""
        while "$ref" in value:
            target: Any = self.description
            for key in value["$ref"].removeprefix("#/").split("/"):
                target = target[key]
            value = target
        return value

    def schema(self, value: Any) -> Any:
        """A schema of OpenAPI 3.0 as one of JSON Schema 2020-12, without descriptions."""
        if not isinstance(value, dict):
            return value
        if "$ref" in value:
            return {"$ref": f"#/schemas/{self.named(value['$ref'].rpartition('/')[2])}"}
        reduced = {key: self.member(key, value[key]) for key in sorted(KEPT & set(value))}
        return nullable(reduced) if value.get("nullable") else reduced

    def member(self, key: str, value: Any) -> Any:
        match key:
            case "properties":
                return {name: self.schema(each) for name, each in value.items()}
            case "allOf" | "anyOf" | "oneOf":
                return [self.schema(each) for each in value]
            case "items" | "additionalProperties" | "not":
                return self.schema(value)
        return value

    def named(self, name: str) -> str:
        if name not in self.schemas:
            self.schemas[name] = None  # since a schema may contain itself
            self.schemas[name] = self.schema(self.description["components"]["schemas"][name])
        return name


def nullable(schema: Json) -> Json:
    if isinstance(schema.get("type"), str) and not {"allOf", "anyOf", "oneOf"} & set(schema):
        enum = {"enum": [*schema["enum"], None]} if "enum" in schema else {}
        return schema | enum | {"type": [schema["type"], "null"]}
    return {"anyOf": [schema, {"type": "null"}]}


def reduce(description: Json) -> Json:
    reducer = Reducer(description)
    operations = {name: reducer.operation(name) for name in USED}
    return {
        "version": description["info"]["version"],
        "operations": operations,
        "webhooks": {name: reducer.webhook(name) for name in EVENTS},
        "schemas": reducer.schemas,
    }


def main() -> None:
    source = Path(sys.argv[1])
    reduced = reduce(json.loads(source.read_text()))
    # MIT: the notice travels with every copy.
    reduced["license"] = source.parents[1].joinpath("LICENSE").read_text()
    TARGET.write_text(json.dumps(reduced, sort_keys=True, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
