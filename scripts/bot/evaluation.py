"""What starts and shows the judging of one request: the workflow's inputs, and the check run of its board.

The comment says that a judging is queued; the check run is made by the judging's own run, and leads to it: there one
sees whether a machine has taken it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from scripts.github.checks import Check, CheckState
from scripts.github.starting import start_workflow
from scripts.ledger.request import Request

if TYPE_CHECKING:
    from scripts.github.gh import GitHub

WORKFLOW = "evaluate.yml"


def check_name(gpu: str) -> str:
    """`PullRank / H100`"""
    return f"PullRank / {gpu}"


def run_title(request_id: str) -> str:
    """The `run-name` of evaluate.yml, by which a request's runs are found."""
    return f"judge {request_id}"


def check_of(request: Request, state: CheckState, title: str) -> Check:
    """How the check of a request's board stands while there is no report."""
    return Check(
        name=check_name(request.gpu), head_sha=request.head_sha, state=state, title=title, external_id=request.id
    )


def start(github: GitHub, request: Request, ref: str) -> None:
    """Start evaluate.yml; a newer request of the same pull request, board and mode cancels the older."""
    kind = "rematch" if request.is_rematch else request.mode
    group = f"{request.pull_request}-{request.gpu}-{kind}"
    start_workflow(github, WORKFLOW, {"request": request.id, "group": group}, ref)


def show_running(github: GitHub, request: Request, run_url: str) -> int | None:
    """Let the board's check run lead to the run; its id, or None where a commit status stands for it."""
    title = f"{request.mode}: being judged, or waits for a machine"
    check = replace(check_of(request, CheckState.RUNNING, title), details_url=run_url)
    # What is asked for first has no check run yet, or one of another mode, whose result stands.
    return github.create_check(check) if request.attempt == 1 else github.upsert_check(check)


def stop(github: GitHub, requests: Iterable[Request]) -> None:
    """Stop the runs of requests that nobody wants any more."""
    titles = {run_title(request.id) for request in requests}
    for run in github.runs(WORKFLOW):
        if run.title in titles and not run.is_done:
            github.cancel_run(run.id)
