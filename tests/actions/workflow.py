"""Reads a workflow file: its triggers, jobs and steps.

A key that the mini-runner does not know is an error, since GitHub would obey it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

import yaml

Json = dict[str, Any]

_DEFAULT_TYPES = {"pull_request_target": ("opened", "synchronize", "reopened")}
_EVENTS = {
    "issue_comment": {"types"},
    "merge_group": set(),
    "pull_request_target": {"types"},
    "push": {"branches", "paths", "paths-ignore"},  # payloads name no files: a push starts more runs here than on GitHub
    "schedule": {"cron"},
    "workflow_dispatch": {"inputs"},
}  # fmt: skip
_WORKFLOW = {"name", "run-name", "on", "permissions", "concurrency", "jobs"}
_JOB = {
    "cache-mode", "env", "environment", "if", "needs", "outputs", "permissions", "runs-on", "steps", "timeout-minutes",
}  # fmt: skip
_STEP = {"env", "id", "if", "name", "run", "shell", "uses", "with"}


class WorkflowError(Exception):
    """The file has something that the mini-runner or GitHub does not support."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One of `run` and `uses` is empty."""

    id: str
    condition: str
    env: Json
    run: str = ""
    shell: str = ""
    uses: str = ""
    inputs: Json


@dataclass(frozen=True, kw_only=True)
class Job:
    name: str
    needs: tuple[str, ...]
    condition: str
    runs_on: Any
    minutes: Any
    permissions: dict[str, str]
    environment: Any
    outputs: Json
    env: Json
    steps: tuple[Step, ...]


@dataclass(frozen=True, kw_only=True)
class Workflow:
    """`file` is its name in .github/workflows/."""

    file: str
    name: str
    triggers: dict[str, Json]
    concurrency: Json
    jobs: dict[str, Job]

    def hears(self, event: str, payload: Json) -> bool:
        """Whether an event starts this workflow."""
        if event not in self.triggers:
            return False
        trigger = self.triggers[event]
        types = trigger.get("types", _DEFAULT_TYPES.get(event))
        if types and payload.get("action") not in types:
            return False
        branch = str(payload.get("ref", "")).removeprefix("refs/heads/")
        return "branches" not in trigger or any(fnmatchcase(branch, pattern) for pattern in trigger["branches"])

    def inputs(self, given: Mapping[str, str]) -> Json:
        """The `inputs` context of a dispatched run."""
        known: Json = self.triggers.get("workflow_dispatch", {}).get("inputs", {})
        _only(given, known, f"{self.file}: inputs")
        found: Json = {}
        for name, facts in known.items():
            _only(facts, {"default", "description", "required", "type"}, f"{self.file}: input {name}")
            value = given.get(name) or facts.get("default", "")
            if facts.get("required") and value == "":
                raise WorkflowError(f"{self.file}: input {name} is required")
            found[name] = str(value).lower() == "true" if facts.get("type") == "boolean" else value
        return found


@cache
def read_workflow(file: str, text: bytes) -> Workflow:
    """Read a workflow's file.

    Raises:
        WorkflowError: an unknown key, or a job without its own permissions.
    """
    # YAML reads the key `on` as true.
    content: Json = {"on" if key is True else key: value for key, value in yaml.safe_load(text).items()}
    _only(content, _WORKFLOW, file)
    if content.get("permissions") != {}:
        raise WorkflowError(f"{file}: permissions must be {{}}, and each job name its own")
    return Workflow(
        file=file,
        name=content["name"],
        triggers=_read_triggers(content["on"], file),
        concurrency=content.get("concurrency", {}),
        jobs={name: _read_job(name, job, file) for name, job in content["jobs"].items()},
    )


def _read_triggers(on: Json, file: str) -> dict[str, Json]:
    _only(on, _EVENTS, file)
    triggers: dict[str, Json] = {}
    for event, filters in on.items():
        for filter_ in filters if isinstance(filters, list) else [filters or {}]:
            _only(filter_, _EVENTS[event], f"{file}: {event}")
        triggers[event] = filters if isinstance(filters, dict) else {}
    return triggers


def _read_job(name: str, job: Json, file: str) -> Job:
    where = f"{file}: {name}"
    _only(job, _JOB, where)
    if "permissions" not in job:
        raise WorkflowError(f"{where}: permissions are missing")
    needs = job.get("needs", [])
    return Job(
        name=name,
        needs=(needs,) if isinstance(needs, str) else tuple(needs),
        condition=_condition(job),
        runs_on=job["runs-on"],
        minutes=job["timeout-minutes"],
        permissions=job["permissions"],
        environment=job.get("environment"),
        outputs=job.get("outputs", {}),
        env=job.get("env", {}),
        steps=read_steps(job["steps"], where),
    )


def read_steps(steps: list[Json], where: str) -> tuple[Step, ...]:
    """The steps of a job, or of a composite action."""
    for step in steps:
        _only(step, _STEP, where)
        if ("run" in step) == ("uses" in step):
            raise WorkflowError(f"{where}: a step either runs or uses something")
    return tuple(
        Step(
            id=step.get("id", ""),
            condition=_condition(step),
            env=step.get("env", {}),
            run=step.get("run", ""),
            shell=step.get("shell", ""),
            uses=step.get("uses", ""),
            inputs=step.get("with", {}),
        )
        for step in steps
    )


def _condition(of: Json) -> str:
    condition = of.get("if", "")
    return str(condition).lower() if isinstance(condition, bool) else condition


def _only(given: Collection[str], known: Collection[str], where: str) -> None:
    if strays := sorted(set(map(str, given)) - set(known)):
        raise WorkflowError(f"{where}: the mini-runner does not know {', '.join(strays)}")
