"""A small GitHub Actions: takes the events of a `World`, starts runs of the shipped workflows, runs their jobs.

    event ─▶ on: ─▶ run ─▶ concurrency: ─▶ jobs, as their needs: and if: allow ─▶ played (job.py)

One job runs at a time, or as many as `settle` allows.  Runs take turns, so that two challengers interleave as on
GitHub.  A stand-in for a step may call `settle` itself: then other jobs run during its job.
"""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

from tests.actions.expressions import Expressions, Status, as_text
from tests.actions.job import Play, Played
from tests.actions.shell import Told, write_stand_ins
from tests.actions.warm import WarmPython
from tests.actions.workflow import Job, Workflow, read_workflow
from tests.github_server import Event, GitHubServer, Run
from tests.github_server.shapes import repository

Json = dict[str, Any]

FOLDER = ".github/workflows"


@dataclass(eq=False, kw_only=True)
class Live:
    """A run that has not ended.  `group` is that of its `concurrency:`, `done` are the jobs that ended."""

    run: Run
    workflow: Workflow
    github: Json
    inputs: Json
    variables: Json
    payload_text: str
    group: str = ""
    is_replaced: bool = False
    is_playing: bool = False
    done: dict[str, Played] = field(default_factory=dict)

    @property
    def is_cancelled(self) -> bool:
        """By a newer run of its group, or by somebody."""
        return self.is_replaced or self.run.conclusion == "cancelled"

    def find_next(self) -> Job | None:
        """The next job; None if the run was cancelled before its first."""
        if self.is_cancelled and not self.done:
            return None
        waiting = (job for job in self.workflow.jobs.values() if job.name not in self.done)
        return next((job for job in waiting if all(name in self.done for name in job.needs)), None)

    def contexts(self, job: Job) -> Json:
        """The contexts that a job's own expressions may read."""
        needs = {name: {"result": self.done[name].result, "outputs": self.done[name].outputs} for name in job.needs}
        return {
            "github": self.github | {"job": job.name},
            "inputs": self.inputs,
            "needs": needs,
            "vars": self.variables,
        }

    def status(self, job: Job) -> Status:
        results = {self.done[name].result for name in job.needs}
        good = results <= {"success"} and not self.is_cancelled
        return Status(success=good, failure="failure" in results, cancelled=self.is_cancelled)

    @property
    def conclusion(self) -> str:
        results = {played.result for played in self.done.values()}
        if self.is_cancelled:
            return "cancelled"
        return "failure" if "failure" in results else "success" if "success" in results else "skipped"


class Hub:
    """Runs the shipped workflows.

    `played` are the jobs that ended; `pages` is what was deployed; `instead` replaces scripts by how they begin.
    A job that fails ends the test, unless `may_fail` names it.  A job that needs a machine with a label in `away`
    waits.  `machines` is the folder where jobs run: always in the same places, so that Python finds its compiled files.
    """

    def __init__(
        self, server: GitHubServer, expressions: Expressions, warm: WarmPython, folder: Path, machines: Path
    ) -> None:
        self.server, self.world, self.expressions = server, server.world, expressions
        self.machines, self.compiled = machines, machines / "compiled"
        self.pages, self.stand_ins = folder / "pages", folder / "stand-ins"
        write_stand_ins(self.stand_ins, warm)
        self.heard: list[Event] = []
        self.runs: list[Live] = []
        self.played: list[Played] = []
        self.instead: dict[str, Callable[[Play], Told | None]] = {}
        self.may_fail: set[str] = set()
        self.away: set[str] = set()
        self.ahead = timedelta()
        self._desks: set[int] = set()
        self._lock = threading.Lock()
        self.world.listeners.append(self.heard.append)

    def pass_time(self, time: timedelta) -> None:
        """Move the time forward, for GitHub and for the steps."""
        clock = self.world.clock
        self.world.clock = lambda: clock() + time
        self.ahead += time

    def schedule(self, file: str) -> None:
        """Start what `cron` would start."""
        self.heard.append(Event("schedule", {"repository": repository(self.world), "workflow": file}, self.world.owner))

    def settle(self, *, at_once: int = 1) -> None:
        """Run jobs until none is left, up to this many at the same time."""
        with ThreadPoolExecutor(at_once) as players:
            while lives := self._next(at_once):
                # A single job runs in this thread, since a stand-in may call `settle` again.
                list(map(self._advance, lives) if len(lives) == 1 else players.map(self._advance, lives))

    def find(self, workflow: str, job: str) -> list[Played]:
        return [played for played in self.played if (played.workflow, played.job) == (workflow, job)]

    # Runs.

    def _next(self, most: int) -> list[Live]:
        """The next jobs to run: of the runs that can continue, those with the least progress."""
        while self.heard:
            self._hear(self.heard.pop(0))
        free = [
            live for live in self.runs if not live.is_playing and not self._is_held(live) and not self._is_away(live)
        ]
        return sorted(free, key=lambda live: len(live.done))[:most]

    def _is_held(self, live: Live) -> bool:
        """Whether an older run of its group has not ended."""
        older = self.runs[: self.runs.index(live)]
        return bool(live.group) and not live.is_cancelled and any(each.group == live.group for each in older)

    def _is_away(self, live: Live) -> bool:
        """Whether there is no machine for the next job."""
        job = live.find_next() if self.away else None
        runs_on = self.expressions.fill(job.runs_on, live.contexts(job)) if job else []
        return isinstance(runs_on, list) and not self.away.isdisjoint(runs_on)

    def _hear(self, event: Event) -> None:
        for workflow in self._workflows():
            if _is_meant(workflow, event):
                self._start(workflow, event)

    def _workflows(self) -> list[Workflow]:
        """The workflows on the default branch, without disabled ones."""
        git, branch = self.world.git, self.world.default_branch
        files = [path for path in git.files(branch) if path.startswith(f"{FOLDER}/")]
        names = {path.removeprefix(f"{FOLDER}/") for path in files} - self.world.disabled_workflows
        return [read_workflow(name, git.read(branch, f"{FOLDER}/{name}") or b"") for name in sorted(names)]

    def _start(self, workflow: Workflow, event: Event) -> None:
        run = event.run or self.world.start_run(workflow.file, event.name, actor=event.actor)
        payload = json.dumps(event.payload)
        github = self._github(workflow, event, run)
        inputs, variables = workflow.inputs(run.inputs), dict(self.world.variables)
        live = Live(run=run, workflow=workflow, github=github, inputs=inputs, variables=variables, payload_text=payload)
        contexts = {"github": github, "inputs": inputs, "vars": variables}
        concurrency = self.expressions.fill(workflow.concurrency, contexts)
        if concurrency:
            live.group = as_text(concurrency["group"])
            self._make_room(live.group, is_cancelling=concurrency.get("cancel-in-progress", False) is True)
        self.runs.append(live)

    def _make_room(self, group: str, *, is_cancelling: bool) -> None:
        """At most one run of a group waits.  The one that is running continues, or is cancelled."""
        for older in [live for live in self.runs if live.group == group]:
            older.is_replaced |= is_cancelling or self._is_held(older)

    def _github(self, workflow: Workflow, event: Event, run: Run) -> Json:
        world, pull = self.world, event.payload.get("pull_request", {})
        ref = f"refs/heads/{run.head_branch}"
        return {
            "actor": event.actor.login,
            "actor_id": str(event.actor.id),
            "api_url": self.server.api_url,
            "base_ref": pull.get("base", {}).get("ref", ""),
            "event": event.payload,
            "event_name": event.name,
            "head_ref": pull.get("head", {}).get("ref", ""),
            "ref": ref,
            "ref_name": run.head_branch,
            "ref_type": "branch",
            "repository": world.repository,
            "repository_id": str(world.repository_id),
            "repository_owner": world.owner.login,
            "run_attempt": "1",
            "run_id": str(run.id),
            "run_number": str(run.id),
            "server_url": self.server.url,
            "sha": run.head_sha,
            "triggering_actor": event.actor.login,
            "workflow": workflow.name,
            "workflow_ref": f"{world.repository}/{FOLDER}/{workflow.file}@{ref}",
            "workflow_sha": run.head_sha,
        }

    # Jobs.

    def _advance(self, live: Live) -> None:
        """Run the next job; after the last one, end the run."""
        if job := live.find_next():
            live.is_playing = True
            live.done[job.name] = played = self._play(live, job)
            live.is_playing = False
            self.played.append(played)
            assert played.result != "failure" or job.name in self.may_fail, f"{played}\n{played.log}"
        if not live.find_next():
            self.runs.remove(live)
            self.world.finish_run(live.run, live.conclusion)

    def _play(self, live: Live, job: Job) -> Played:
        if not self.expressions.holds(job.condition, live.contexts(job), live.status(job)):
            result = "cancelled" if live.is_cancelled else "skipped"
            self.world.finish_job(self.world.start_job(live.run, job.name), result)
            return Played(workflow=live.workflow.file, job=job.name, result=result)
        with self._desk() as folder:
            play = Play(self, live, job, folder)
            entry = self.world.start_job(live.run, job.name, "GitHub Actions 1" if play.is_hosted else "bench-1")
            played = play.play()
            self.world.finish_job(entry, played.result)
            return played

    @contextmanager
    def _desk(self) -> Iterator[Path]:
        """The first free folder to run a job in."""
        with self._lock:
            number = next(number for number in count(1) if number not in self._desks)
            self._desks.add(number)
        folder = self.machines / str(number)
        try:
            yield folder
        finally:
            shutil.rmtree(folder)
            with self._lock:
                self._desks.remove(number)


def _is_meant(workflow: Workflow, event: Event) -> bool:
    if event.run:
        return workflow.file == event.run.workflow
    if event.name == "schedule":
        return workflow.file == event.payload["workflow"] and "schedule" in workflow.triggers
    return workflow.hears(event.name, event.payload)
