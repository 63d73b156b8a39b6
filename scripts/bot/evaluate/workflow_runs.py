"""Start and show the judging of one request: the workflow's inputs, and the check run of its board.

The comment says that a judging is queued.  The judging's own run makes the check run, which links to it: the run's page
shows whether a machine has taken it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC
from typing import TYPE_CHECKING

from scripts.github.checks import Check, CheckState
from scripts.github.pulls import WorkflowRun
from scripts.github.start_workflow import start_workflow
from scripts.ledger.request import Ending, Request

if TYPE_CHECKING:
    from scripts.github.gh import GitHub

WORKFLOW = "evaluate.yml"
LIVE = ("queued", "pending", "in_progress")
"""A run that waits for another one of its group may be pending."""


def check_name(gpu: str) -> str:
    """`PullRank / H100`"""
    return f"PullRank / {gpu}"


def run_title(request_id: str) -> str:
    """The `run-name` of evaluate.yml, which identifies a request's runs."""
    return f"judge {request_id}"


def group_of(request: Request) -> str:
    """The concurrency group: GitHub keeps only the newest run for one pull request, board and mode."""
    return f"{request.pull_request}-{request.gpu}-{'rematch' if request.is_rematch else request.mode}"


def check_of(request: Request, state: CheckState, title: str) -> Check:
    """The check run of a request's board while there is no report."""
    return Check(
        name=check_name(request.gpu), head_sha=request.head_sha, state=state, title=title, external_id=request.id
    )


def start(github: GitHub, request: Request, ref: str) -> None:
    """Start evaluate.yml; GitHub stops an older run of the same group."""
    start_workflow(github, WORKFLOW, {"request": request.id, "group": group_of(request)}, ref)


def show_running(github: GitHub, request: Request, run_url: str) -> int:
    """Show in the board's check run that the run goes on, with a link to it; returns the check run's id."""
    title = f"{request.mode}: running, or waiting for a machine"
    summary = f"[The run's page]({run_url}) shows whether a machine has taken it."
    check = replace(check_of(request, CheckState.RUNNING, title), summary=summary)
    # A retry's check run is still pending.  Otherwise an older one keeps its result, and GitHub shows the newest.
    return github.upsert_check(check) if request.is_retry else github.create_check(check)


def live_runs(github: GitHub) -> tuple[WorkflowRun, ...]:
    """All waiting and running runs, however many and however old."""
    return tuple(run for status in LIVE for run in github.all_runs(WORKFLOW, status=status))


def find_run(github: GitHub, request: Request, ending: Ending) -> int | None:
    """The id of the newest run of an ended request, however many others came since."""
    asked, ended = (time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") for time in (request.asked_at, ending.at))
    title = run_title(request.id)
    runs = github.all_runs(WORKFLOW, created=f"{asked}..{ended}")
    return next((run.id for run in runs if run.title == title), None)


def stop(github: GitHub, requests: Iterable[Request]) -> None:
    """Stop the runs of requests that are no longer wanted."""
    titles = {run_title(request.id) for request in requests}
    if not titles:
        return
    runs = github.runs(WORKFLOW)
    if not titles <= {run.title for run in runs}:  # `runs` has only the newest hundred; queued ones may be older
        runs += live_runs(github)
    for run_id in {run.id for run in runs if run.title in titles and not run.is_done}:
        github.cancel_run(run_id)
