"""Runs one job: its steps in order, in a workspace of its own, with a token that has only its permissions."""

from __future__ import annotations

import os
import re
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from tests.actions.expressions import Status, as_text
from tests.actions.shell import StepFailed, Told, run_script
from tests.actions.uses import ACTIONS
from tests.actions.workflow import Job, Step, WorkflowError, read_steps
from tests.github_server import Token

if TYPE_CHECKING:
    from tests.actions.hub import Hub, Live

Json = dict[str, Any]

PINNED = re.compile(r"(?P<name>[\w-]+/[\w-]+)@[0-9a-f]{40}")


@dataclass(frozen=True, kw_only=True)
class Played:
    """The result of a job, and what tests look at.

    `environments` are those of its steps, `summary` is its steps' job summary.
    """

    workflow: str
    job: str
    result: str
    outputs: Json = field(default_factory=dict)
    token: Token | None = None
    environments: tuple[dict[str, str], ...] = ()
    log: str = ""
    summary: str = ""

    def __str__(self) -> str:
        return f"{self.workflow} / {self.job}: {self.result}"


class Play:
    """A job that is running.  No other job uses `folder` meanwhile."""

    def __init__(self, hub: Hub, live: Live, job: Job, folder: Path) -> None:
        self.hub, self.live, self.job = hub, live, job
        # A job that runs although its run was cancelled is not stopped again.
        self.began_cancelled = live.is_cancelled
        self.token = hub.world.workflow_token(job.permissions)
        self.place = self._environment_of(job.environment)
        self.workspace, self.temp, self.home = (folder / name for name in ("workspace", "temp", "home"))
        for path in (self.workspace, self.temp, self.home):
            path.mkdir(parents=True)
        (self.temp / "event.json").write_text(live.payload_text)
        self.status, self.steps = Status(), dict[str, Any]()
        self.runs_on = hub.expressions.fill(job.runs_on, live.contexts(job))
        self.env: dict[str, str] = {}
        self.path: tuple[str, ...] = (str(hub.stand_ins),)
        self.environments: list[dict[str, str]] = []
        self.told: list[Told] = []

    def play(self) -> Played:
        minutes = self.hub.expressions.fill(self.job.minutes, self.live.contexts(self.job))
        assert isinstance(minutes, int) and 0 < minutes <= 360, f"timeout-minutes: {minutes}"
        self._play_steps(self.job.steps)
        outputs = self.hub.expressions.fill(self.job.outputs, self._contexts({}))
        return Played(
            workflow=self.live.workflow.file,
            job=self.job.name,
            result=self._result,
            outputs={name: as_text(value) for name, value in outputs.items()},
            token=self.token,
            environments=tuple(self.environments),
            log="\n".join(told.log for told in self.told),
            summary="".join(told.summary for told in self.told),
        )

    @property
    def _result(self) -> str:
        return "cancelled" if self.status.cancelled else "failure" if self.status.failure else "success"

    @property
    def is_hosted(self) -> bool:
        """Whether the job runs on GitHub's own machines."""
        labels = [self.runs_on] if isinstance(self.runs_on, str) else self.runs_on
        return isinstance(labels, list) and "self-hosted" not in labels

    def _environment_of(self, named: Any) -> Json:
        """The environment that a job names, with its secrets and variables; empty if it does not exist."""
        name = named["name"] if isinstance(named, dict) else named
        found: Json = self.hub.world.settings.get("environments", {}).get(name, {})
        branches = [branch["name"] for branch in found.get("branches", ())]
        if found.get("deployment_branch_policy") and self.hub.world.default_branch not in branches:
            raise WorkflowError(f"{self.live.workflow.file}: {name} is closed to {self.hub.world.default_branch}")
        return found

    def _play_steps(self, steps: tuple[Step, ...]) -> None:
        for step in steps:
            outcome, told = self._play_step(step)
            self.told.append(told)
            self.env |= told.env
            self.path = (*told.path, *self.path)
            if step.id:
                self.steps[step.id] = {"outputs": told.outputs, "outcome": outcome, "conclusion": outcome}
            if outcome in ("failure", "cancelled"):
                self.status = replace(self.status, success=False, **{outcome: True})

    def _play_step(self, step: Step) -> tuple[str, Told]:
        if not self.hub.expressions.holds(step.condition, self._contexts(self._env_of(step)), self.status):
            return "skipped", Told()
        try:
            told, outcome = self._use(step) if step.uses else self._run(step), "success"
        except StepFailed as failed:
            told, outcome = Told(log=str(failed)), "failure"
        is_stopped = self.live.is_cancelled and not self.began_cancelled
        return ("cancelled" if is_stopped else outcome), told

    def _run(self, step: Step) -> Told:
        if "${{" in step.run:
            raise WorkflowError(f"{self.live.workflow.file}: an expression in a script: {step.run}")
        environment = self._environment(self._env_of(step))
        self.environments.append(environment)
        for begin, stand_in in self.hub.instead.items():
            if step.run.startswith(begin):
                return stand_in(self) or Told()
        return run_script(step.run, step.shell, environment, self.workspace, self.temp)

    def _use(self, step: Step) -> Told:
        if step.uses.startswith("$/"):
            return self._use_own(step.uses.removeprefix("$/"))
        pinned = PINNED.fullmatch(step.uses)
        if not pinned or pinned["name"] not in ACTIONS:
            raise WorkflowError(f"{self.live.workflow.file}: nothing stands in for {step.uses}")
        action, known = ACTIONS[pinned["name"]]
        inputs = self.hub.expressions.fill(step.inputs, self._contexts({}))
        if strays := set(inputs) - known:
            raise WorkflowError(f"{self.live.workflow.file}: {pinned['name']} gets {strays}")
        return Told(outputs=action(self, {name: as_text(value) for name, value in inputs.items()}))

    def _use_own(self, path: str) -> Told:
        """Run a composite action of the repository, from the workflow's commit."""
        text = self.hub.world.git.read(self.live.run.head_sha, f"{path}/action.yml")
        assert text, f"there is no {path}"
        runs = yaml.safe_load(text)["runs"]
        assert runs["using"] == "composite"
        self._play_steps(read_steps(runs["steps"], path))
        if not self.status.success:
            raise StepFailed(f"{path} failed")
        return Told()

    # What a step can read.

    def _env_of(self, step: Step) -> dict[str, str]:
        contexts = self._contexts(self.env)
        filled = self.hub.expressions.fill({**self.job.env, **step.env}, contexts)
        return self.env | {name: as_text(value) for name, value in filled.items()}

    def _contexts(self, env: dict[str, str]) -> Json:
        contexts = self.live.contexts(self.job)
        return contexts | {
            "github": contexts["github"] | {"token": self.token.value},
            "steps": self.steps,
            "runner": self._runner(),
            "job": {"status": self._result},
            "env": env,
            "vars": contexts["vars"] | self.place.get("variables", {}),
            "secrets": self.place.get("secrets", {}) | {"GITHUB_TOKEN": self.token.value},
        }

    def _runner(self) -> Json:
        return {
            "name": "GitHub Actions 1" if self.is_hosted else "bench-1",
            "os": "Linux",
            "arch": "X64",
            "environment": "github-hosted" if self.is_hosted else "self-hosted",
            "temp": str(self.temp),
        }

    def _environment(self, env: dict[str, str]) -> dict[str, str]:
        """The environment of a script: GitHub's variables, what steps added, and the step's `env:`."""
        told = {name: value for name, value in self.live.github.items() if name != "event"}
        github = {f"GITHUB_{name.upper()}": str(value) for name, value in told.items()}
        runner = {f"RUNNER_{name.upper()}": value for name, value in self._runner().items()}
        return {
            "CI": "true",
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "PATH": ":".join((*self.path, os.environ["PATH"])),
            "GITHUB_ACTIONS": "true",
            "GITHUB_EVENT_PATH": str(self.temp / "event.json"),
            "GITHUB_JOB": self.job.name,
            "GITHUB_WORKSPACE": str(self.workspace),
            # From the tests themselves: the folder for temporary files, the permission for other work beside a judging,
            # the folder for compiled files, and the time.
            "TMPDIR": tempfile.gettempdir(),
            "PULLRANK_OTHER_WORK": "allow",
            "PYTHONPYCACHEPREFIX": str(self.hub.compiled),
            **({"LATER_S": str(self.hub.ahead.total_seconds())} if self.hub.ahead else {}),
            **github,
            **runner,
            **env,
        }
