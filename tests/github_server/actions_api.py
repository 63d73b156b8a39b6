"""Workflows, their runs and artifacts, as REST.  Starting one makes a queued run and tells `world.listeners`."""

from __future__ import annotations

from functools import cache
from typing import Any

import yaml

from tests.github_server import shapes
from tests.github_server.routes import Answer, Call, Refusal, route
from tests.github_server.world import Run

Json = dict[str, Any]


@route("POST /actions/workflows/{workflow_id}/dispatches", "actions:write")
def dispatch(call: Call) -> Answer:
    """Start a workflow.  As on GitHub, its file must allow this, and declare every input."""
    name, ref = call.path["workflow_id"], call.body["ref"].removeprefix("refs/heads/")
    trigger = _dispatch_trigger(call, name, ref)
    inputs = {key: str(value) for key, value in call.body.get("inputs", {}).items()}
    known = trigger.get("inputs") or {}
    if strays := sorted(set(inputs) - set(known)):
        raise Refusal(422, f"Unexpected inputs provided: {strays}")
    for key, facts in known.items():
        if (facts or {}).get("required") and not inputs.get(key) and "default" not in facts:
            raise Refusal(422, f"Required input '{key}' not provided")
    if name in call.world.disabled_workflows:
        raise Refusal(422, "Cannot trigger a 'workflow_dispatch' on a disabled workflow")
    run = call.world.start_run(
        name, "workflow_dispatch", title=_title(call, name, ref), actor=call.token.user, inputs=inputs, ref=ref
    )
    payload: Json = {"ref": f"refs/heads/{ref}", "workflow": f".github/workflows/{name}", "inputs": inputs}
    payload |= {"repository": shapes.repository(call.world), "sender": shapes.user(call.token.user)}
    call.world.emit("workflow_dispatch", payload, call.token.user, run=run)
    if not call.body.get("return_run_details"):
        return Answer(204)
    return Answer(body={"workflow_run_id": run.id, "html_url": shapes.run(call.world, run)["html_url"]})


def _workflow(call: Call, name: str, ref: str) -> Json:
    content = call.require(call.world.git.read(ref, f".github/workflows/{name}"))
    return _parsed(content)


@cache
def _parsed(content: bytes) -> Json:
    workflow: dict[Any, Any] = yaml.safe_load(content)
    # YAML reads the key `on` as true.
    return {"on" if key is True else key: value for key, value in workflow.items()}


def _dispatch_trigger(call: Call, name: str, ref: str) -> Json:
    if call.world.git.find_commit(ref) is None:
        raise Refusal(422, f"No ref found for: {ref}")
    triggers = _workflow(call, name, ref).get("on")
    if "workflow_dispatch" not in (triggers or ()):
        raise Refusal(422, "Workflow does not have 'workflow_dispatch' trigger")
    return (triggers["workflow_dispatch"] or {}) if isinstance(triggers, dict) else {}


def _title(call: Call, name: str, ref: str) -> str:
    """The run's name.  GitHub fills in all expressions; here, only simple ones of inputs."""
    workflow = _workflow(call, name, ref)
    title = str(workflow.get("run-name") or workflow.get("name") or name)
    for key, value in call.body.get("inputs", {}).items():
        for spelling in (f"${{{{ inputs.{key} }}}}", f"${{{{inputs.{key}}}}}"):
            title = title.replace(spelling, str(value))
    return title


@route("GET /actions/workflows", "actions:read")
def list_workflows(call: Call) -> Answer:
    folder = ".github/workflows/"
    names = [
        path.removeprefix(folder) for path in call.world.git.files(call.world.default_branch) if path.startswith(folder)
    ]
    return call.page(names, lambda name: _workflow_shape(call, name), "workflows")


def _workflow_shape(call: Call, name: str) -> Json:
    state = "disabled_inactivity" if name in call.world.disabled_workflows else "active"
    title = _workflow(call, name, call.world.default_branch).get("name", name)
    path = f".github/workflows/{name}"
    page = f"{call.world.web_url}/{call.world.repository}/blob/{call.world.default_branch}/{path}"
    shape = {"id": sum(map(ord, name)), "node_id": f"W_{name}", "name": title, "path": path, "state": state}
    return {**shape, "html_url": page, **shapes.BORN}


@route("PUT /actions/workflows/{workflow_id}/enable", "actions:write")
def enable_workflow(call: Call) -> Answer:
    call.world.disabled_workflows.discard(call.path["workflow_id"])
    return Answer(204)


@route("GET /actions/workflows/{workflow_id}/runs", "actions:read")
def list_runs(call: Call) -> Answer:
    workflow = call.path["workflow_id"]
    runs = [run for run in reversed(call.world.runs.values()) if run.workflow == workflow and _is_asked(call, run)]
    return call.page(runs, lambda run: shapes.run(call.world, run), "workflow_runs")


def _is_asked(call: Call, run: Run) -> bool:
    status, created = call.query.get("status"), call.query.get("created", "")
    is_of_status = status in (None, run.status, run.conclusion)
    first, _, last = created.partition("..")
    is_of_time = first <= (shapes.time(run.created_at) or "") <= (last or "9999")
    is_listed = run.created_at + call.world.listed_after <= call.world.clock()
    return is_of_status and is_of_time and is_listed


@route("POST /actions/runs/{run_id}/cancel", "actions:write")
def cancel_run(call: Call) -> Answer:
    run = _find_run(call)
    if run.status == "completed":
        raise Refusal(409, "Cannot cancel a workflow run that is completed.")
    call.world.finish_run(run, "cancelled")
    return Answer(202, {})


@route("GET /actions/runs/{run_id}/jobs", "actions:read")
def list_jobs(call: Call) -> Answer:
    run = _find_run(call)
    return call.page(run.jobs, lambda job: shapes.job(call.world, job, run), "jobs")


@route("GET /actions/runs/{run_id}/artifacts", "actions:read")
def list_artifacts(call: Call) -> Answer:
    artifacts = [each for each in _find_run(call).artifacts if call.query.get("name") in (None, each.name)]
    return call.page(artifacts, lambda artifact: shapes.artifact(call.world, artifact), "artifacts")


@route("GET /actions/artifacts/{artifact_id}/{archive_format}", "actions:read")
def download_artifact(call: Call) -> Answer:
    """Redirect to another host; the address is valid for a minute."""
    artifact = call.require(call.world.find_artifact(call.number("artifact_id")))
    if artifact.expired:
        raise Refusal(410, "Artifact has expired")
    return Answer(302, headers={"Location": f"{call.world.settings['storage_url']}/artifacts/{artifact.id}"})


def _find_run(call: Call) -> Run:
    return call.require(call.world.runs.get(call.number("run_id")))
