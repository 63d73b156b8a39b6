"""Merge a pull request at the commit that was judged, if it changes nothing but the judged file.

With `merge: auto` in the settings, the bot merges a ranked file that makes its author's row.  It waits until no other
request of the pull request is open, or until they have waited for an hour (the reconciler does that; they are still
judged).  With `merge: manual`, or if the author is banned by then, merging is left to a maintainer.  The row comes from
the judgement, not from the merge: nothing on a board waits for this.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from scripts.bot.admission.admission import why_banned
from scripts.bot.admission.path_rule import SubmissionPath, classify
from scripts.bot.comment.pull_record import PullRecord
from scripts.bot.comment.write_comment import add_remark
from scripts.bot.context import BotContext
from scripts.bot.report.places import LedgerBoards, PlaceKind
from scripts.common.text import inline
from scripts.competition.settings import Merge, Settings
from scripts.github.fork import Fork
from scripts.github.pulls import GitHubError, MergeState, PullRequest
from scripts.ledger.ledger import RequestStatus
from scripts.ledger.moderation import Moderated
from scripts.ledger.request import Request

if TYPE_CHECKING:
    from scripts.github.gh import GitHub

MERGED = "merged"
WORKFLOWS = ".github/workflows"

_NOT_MERGED = (
    "This was judged and its row is on the board, but GitHub did not merge it: {}. If the branch conflicts with the "
    "default branch, as the branch of an already merged pull request does, put the file on a new branch from the "
    "default branch and open another pull request. Otherwise a maintainer can merge it."
)
_OUTDATED = (
    "This was judged and its row is on the board, but GitHub lets the bot merge it only if its branch has the default "
    "branch's current workflow files. Press *Update branch* below, or run `gh pr update-branch {}`. The bot judges the "
    "updated commit and merges it."
)
_BLENDED = (
    "This was judged and its row is on the board, but the bot does not merge it: since this branch began, another pull "
    "request has changed the file on the default branch, and a merge would join the two into a file that was never "
    "judged. Press *Update branch* below to have that file judged, or push the file as you want it."
)


def find_due(of_pull: Iterable[RequestStatus], head_sha: str, tables: LedgerBoards) -> Request | None:
    """The request whose judgement lets a head be merged; None while any request of its pull request is open."""
    statuses = tuple(of_pull)
    if any(status.is_open for status in statuses):
        return None
    of_head = (status for status in statuses if status.request.head_sha == head_sha)
    return next((status.request for status in of_head if tables.place(status) is PlaceKind.ROW), None)


def why_left_to_people(request: Request, settings: Settings, moderated: Moderated) -> str:
    """Why a pull request is left to maintainers whatever its judgement; usually empty."""
    if settings.merge is not Merge.AUTO:
        return "not merged: a maintainer merges here"
    if why_banned(request.user_id, request.login, settings, moderated):
        return "its author is banned"
    return ""


def why_not_merged(request: Request, pull: PullRequest, default_branch: str) -> str:
    """Why a pull request is not merged; empty if it should be."""
    if not pull.is_open or pull.is_draft:
        return "not open and ready for review"
    if pull.head_sha != request.head_sha:
        return "the head has moved since it was judged"
    if pull.base_ref != default_branch:
        return "it no longer targets the default branch"
    if pull.author.id != request.user_id:
        return "its author is not the request's"
    return ""


def merge(request: Request, of_pull: PullRecord, moderated: Moderated, context: BotContext) -> str:
    """Merge the commit of a request that `find_due` found, unless there is a reason not to; returns a log line.

    Args:
        of_pull: the record of its pull request.
    """
    if reason := why_left_to_people(request, context.settings, moderated):
        return reason
    github = context.github
    with context.open_fork() as fork:
        change = classify(fork.changes(request.head_sha, before_merge=True), request.login)
        if not isinstance(change, SubmissionPath) or change.task != request.task:
            return "not merged: it changes more than the judged file"
        blends = fork.would_blend(request.head_sha, change.path)
        # Read it last: its author can change its target at any time.
        pull = github.get_pull(request.pull_request)
        if reason := why_not_merged(request, pull, context.default_branch):
            return f"not merged: {reason}"
        if blends:
            add_remark(of_pull, request.head_sha, _BLENDED, github)
            return "not merged: the default branch has other changes of the file, and the merged one was never judged"
        return _merge(request, pull, of_pull, fork, github)


def _merge(request: Request, pull: PullRequest, of_pull: PullRecord, fork: Fork, github: GitHub) -> str:
    """Merge a commit that may be merged; if GitHub refuses, tell its author why."""
    title = f"{request.task}: {request.login} (#{request.pull_request})"
    message = f"Judged on {request.gpu} as {request.id}.\nSHA-256 of the file: {request.digest or 'unknown'}"
    done = github.merge(pull.number, request.head_sha, title, message)
    if done.state is MergeState.FORBIDDEN:
        # A workflow's token may not change workflows.  GitHub takes a merge for one that does so if the default branch
        # has changed them since the branch began.
        if not fork.is_outdated(request.head_sha, WORKFLOWS):
            raise GitHubError(done.reason, 403)
        add_remark(of_pull, request.head_sha, _OUTDATED.format(pull.number), github)
        return "not merged: its branch lacks newer workflow files of the default branch"
    # If another merge came in between, the reconciler's next attempt succeeds.
    if done.state is MergeState.REFUSED and "base branch was modified" not in done.reason.lower():
        add_remark(of_pull, request.head_sha, _NOT_MERGED.format(inline(done.reason or "no reason given")), github)
    return MERGED if done.state is MergeState.MERGED else f"not merged: {done.reason or done.state}"
