"""What starts and shows the judging of one request: the workflow's inputs, and the check run of its board."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from scripts.checks import Check, CheckState
from scripts.request import Request

if TYPE_CHECKING:
    from scripts.gh import GitHub

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


def start(github: GitHub, request: Request, ref: str = "main") -> None:
    """Start evaluate.yml; a newer request of the same pull request, board and mode cancels the older."""
    group = f"{request.pull_request}-{request.gpu}-{request.mode}"
    github.dispatch(WORKFLOW, {"request": request.id, "group": group}, ref)


def stop(github: GitHub, requests: Iterable[Request]) -> None:
    """Stop the runs of requests that nobody wants any more."""
    titles = {run_title(request.id) for request in requests}
    for run in github.runs(WORKFLOW):
        if run.title in titles and not run.is_done:
            github.cancel_run(run.id)
