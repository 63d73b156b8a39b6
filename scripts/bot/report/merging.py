"""When a pull request is merged: by the bot, at the commit that was judged, and never anything but the judged file.

A ranked file that makes its author's row is merged where the settings say `merge: auto`, once nothing of its pull
request waits any more, or has waited for an hour (the reconciler sees to that; what waits is judged all the same);
`merge: manual` leaves the button to a maintainer, and so does a ban of the author, whenever it came.  The row comes
from the judgement, not from the merge: nothing on a board waits for this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from scripts.bot.admission.admission import why_banned
from scripts.bot.admission.path_rule import SubmissionPath, classify
from scripts.bot.comment.show import remark
from scripts.bot.report.tables import PlaceKind, Tables
from scripts.common.text import inline
from scripts.competition.settings import Merge
from scripts.github.pulls import MergeState, PullRequest
from scripts.ledger.ledger import RequestStatus
from scripts.ledger.request import Request

if TYPE_CHECKING:
    from scripts.competition.settings import Settings
    from scripts.github.fork import Fork
    from scripts.github.gh import GitHub
    from scripts.ledger.moderation import Moderated

MERGED = "merged"

_NOT_MERGED = (
    "This was judged, and its row stands; but GitHub did not merge it: {}. If the branch is in conflict with the "
    "default branch, as that of an earlier pull request is once it was merged, put the file onto a new branch from "
    "there, and open another pull request. Else a maintainer can merge it."
)


def find_due(of_pull: Iterable[RequestStatus], head_sha: str, tables: Tables) -> Request | None:
    """The request whose judgement a head is merged for: none while one of its pull request's is open."""
    statuses = tuple(of_pull)
    if any(status.is_open for status in statuses):
        return None
    of_head = (status for status in statuses if status.request.head_sha == head_sha)
    return next((status.request for status in of_head if tables.place(status) is PlaceKind.ROW), None)


def why_left_to_people(request: Request, settings: Settings, moderated: Moderated) -> str:
    """Why a request's pull request is left to people, whatever has become of it; empty as a rule."""
    if settings.merge is not Merge.AUTO:
        return "a maintainer merges here"
    if why_banned(request.user_id, request.login, settings, moderated):
        return "its author is banned"
    return ""


def why_not_merged(request: Request, pull: PullRequest, default_branch: str) -> str:
    """Why a pull request is left as it is; empty if it is to be merged."""
    if not pull.is_open or pull.is_draft:
        return "not open and ready"
    if pull.head_sha != request.head_sha:
        return "the head has moved since it was judged"
    if pull.base_ref != default_branch:
        return "it is not for the default branch any more"
    if pull.author.id != request.user_id:
        return "its author is another one"
    return ""


def merge(
    request: Request,
    settings: Settings,
    moderated: Moderated,
    github: GitHub,
    open_fork: Callable[[], Fork],
    default_branch: str,
    pull: PullRequest | None = None,
) -> str:
    """Merge the commit of a request that `find_due` has found; says what was done.

    Args:
        pull: as it has just been read; without, it is asked for.
    """
    if reason := why_left_to_people(request, settings, moderated):
        return reason
    pull = pull or github.get_pull(request.pull_request)
    if reason := why_not_merged(request, pull, default_branch):
        return f"not merged: {reason}"
    with open_fork() as fork:
        change = classify(fork.changes(request.head_sha), request.login)
    if not isinstance(change, SubmissionPath) or change.task != request.task:
        return "not merged: it changes something else than the judged file"
    title = f"{request.task}: {request.login} (#{request.pull_request})"
    message = f"Judged on {request.gpu} as {request.id}.\nSHA-256 of the file: {request.digest or 'unknown'}"
    done = github.merge(pull.number, request.head_sha, title, message)
    # Where another merge came in between, the reconciler's next try goes through.
    if done.state is MergeState.REFUSED and "base branch was modified" not in done.reason.lower():
        remark(pull.number, request.head_sha, _NOT_MERGED.format(inline(done.reason or "no reason given")), github)
    return MERGED if done.state is MergeState.MERGED else f"not merged: {done.reason or done.state}"
