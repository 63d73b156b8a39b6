"""Start a workflow, and explain what to fix if GitHub refuses.

A problem that blocks one judging blocks all: a setting that was switched off, or a missing permission.  So the message
is for maintainers, and names the place to fix it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from scripts.github.pulls import GitHubError, RateLimitError, WorkflowRun

if TYPE_CHECKING:
    from scripts.github.gh import GitHub

_CHECK = "`pullrank setup --check` checks the other settings."
_SETTINGS = "Settings → Actions → General"
_STARTED = (None, "success", "skipped", "cancelled", "timed_out")
"""Conclusions of runs that have started; a failure may also be one that GitHub blocked."""


class NotStarted(GitHubError):
    """The repository is not set up to start a workflow; retrying does not help."""


def start_workflow(github: GitHub, workflow: str, inputs: Mapping[str, str], ref: str) -> None:
    """Start a workflow by its file name.

    Raises:
        NotStarted: it cannot start until somebody fixes what the message names.
        GitHubError: a temporary failure.
    """
    try:
        github.dispatch(workflow, dict(inputs), ref)
    except GitHubError as error:
        if what_to_mend := find_way_out(workflow, ref, error):
            raise NotStarted(f"{workflow} cannot be started: {what_to_mend} {_CHECK}", error.status) from None
        raise


def find_way_out(workflow: str, ref: str, error: GitHubError) -> str:
    """What to fix before a workflow can start; empty if waiting may help.  Pure."""
    said = str(error).casefold()
    match error.status:
        case 403 if not isinstance(error, RateLimitError):
            return f"the token lacks the right. The job needs `actions: write`, and {_SETTINGS} must allow it."
        case 404:
            return f"`{ref}` has no .github/workflows/{workflow}, or Actions are disabled in {_SETTINGS}."
        case 422 if "disabled" in said:
            return f"it is disabled. Enable it: Actions → {workflow} → Enable workflow."
        case 422 if "workflow_dispatch" in said:
            return f"on `{ref}` it has no `workflow_dispatch`. Restore .github/workflows/{workflow} as shipped."
        case 422 if "no ref found" in said:
            return f"there is no branch `{ref}`. Workflows start on the default branch."
    return ""


def why_events_are_lost(runs: Collection[WorkflowRun]) -> str:
    """What to fix if none of intake's runs for a pull request has started; empty if one has.

    GitHub also creates runs that its Actions policy blocks: they fail before their first job.
    """
    if any(run.event == "pull_request_target" and run.conclusion in _STARTED for run in runs):
        return ""
    return (
        "Pull request events do not reach intake.yml: GitHub blocks `pull_request_target` in a public repository "
        f"without its own Actions policy. `pullrank setup` creates one. Until then this job does its work. {_CHECK}"
    )
