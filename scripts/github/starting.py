"""Starting a workflow, and what to mend where GitHub will not.

What stands in the way of one judging stands in the way of all: a switch that somebody has turned, a permission that is
missing.  So the message is for whoever looks after the repository, and names the place where it is mended.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from scripts.github.pulls import GitHubError, RateLimitError

if TYPE_CHECKING:
    from scripts.github.gh import GitHub

_CHECK = "`pullrank setup --check` looks at everything else."
_SETTINGS = "Settings → Actions → General"


class NotStarted(GitHubError):
    """The repository is not set up to start a workflow; trying again does not help."""


def start_workflow(github: GitHub, workflow: str, inputs: Mapping[str, str], ref: str) -> None:
    """Start a workflow by its file's name.

    Raises:
        NotStarted: not before somebody mends what the message names.
        GitHubError: not this time.
    """
    try:
        github.dispatch(workflow, dict(inputs), ref)
    except GitHubError as error:
        if what_to_mend := find_way_out(workflow, ref, error):
            raise NotStarted(f"{workflow} cannot be started: {what_to_mend} {_CHECK}", error.status) from None
        raise


def find_way_out(workflow: str, ref: str, error: GitHubError) -> str:
    """What has to be mended before a workflow can be started; empty if waiting may help.  Pure."""
    said = str(error).casefold()
    match error.status:
        case 403 if not isinstance(error, RateLimitError):
            return f"the token may not. The job needs `actions: write`, and {_SETTINGS} must not take it away."
        case 404:
            return f"`{ref}` has no .github/workflows/{workflow}, or Actions are switched off in {_SETTINGS}."
        case 422 if "disabled" in said:
            return f"it is disabled. Enable it: Actions → {workflow} → Enable workflow."
        case 422 if "workflow_dispatch" in said:
            return f"on `{ref}` it has no `workflow_dispatch`. Restore .github/workflows/{workflow} as it is shipped."
        case 422 if "no ref found" in said:
            return f"there is no branch `{ref}`. Workflows are started on the default branch."
    return ""


def why_unheard(events: Collection[str]) -> str:
    """What to mend where none of intake's runs, told by their events, was for a pull request; empty if one was."""
    if "pull_request_target" in events:
        return ""
    return (
        "No event of a pull request reaches intake.yml: GitHub blocks `pull_request_target` in a public repository "
        f"that has no Actions policy of its own. `pullrank setup` makes one. Until then this job stands in. {_CHECK}"
    )
