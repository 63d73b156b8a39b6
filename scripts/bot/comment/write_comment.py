"""Show judgings in a pull request: a check run for each board, and the one comment that the boards share.

    a board's check run     written by that board alone
    the comment             read, changed and written as a whole, by any run with news

GitHub has no conditional update for comments, so a run with a stale copy may overwrite what another board has just
written.  Therefore a run writes its check run first, and reads all check runs after writing the comment: if a board is
done there but not in the comment, it was lost, and the run restores it.  The last writer sees all of them.

If GitHub rejects a comment for its length or content, the run leaves out its own new report or, if that does not help,
all reports.  They are still in the check runs.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from scripts.bot.admission.path_rule import entry_path
from scripts.bot.comment.comment_text import (
    MARKER,
    BoardSection,
    BoardState,
    FileFacts,
    Notice,
    PullComment,
    Tone,
    read_comment,
)
from scripts.bot.comment.sections import section_of_check
from scripts.bot.evaluate import workflow_runs
from scripts.github.access import server_url
from scripts.github.checks import Check, CheckRun
from scripts.github.pulls import Comment, GitHubError
from scripts.ledger.request import Request

if TYPE_CHECKING:
    from scripts.github.gh import GitHub

MAX_ROUNDS = 5
"""Attempts to restore lost boards; after that, the reconciler does it."""


def tell(
    request: Request,
    section: BoardSection,
    check: Check,
    github: GitHub,
    *,
    known_check: int | None = None,
    notice: Notice | None = None,
) -> str:
    """Show a board's state in its check run and in its section of the comment; returns what `write` does.

    Args:
        known_check: the id of a check run that is out of date.
        notice: the new notice at the top of the comment; None keeps the old one.
    """
    try:
        try:
            _put_check(check, known_check, github)
        except GitHubError as error:
            if error.status != 422 or not (check.text or check.annotations):
                raise
            _put_check(replace(check, text="", annotations=()), known_check, github)
    except GitHubError as error:
        if not _is_of_no_commit(error):
            raise
    return tell_comment(request, section, github, notice=notice)


def tell_comment(request: Request, section: BoardSection, github: GitHub, *, notice: Notice | None = None) -> str:
    """Show a board's state in its section of the comment only; returns what `write` does."""
    known = github.find_comment(request.pull_request, MARKER)
    comment = read_comment(known.body) if known else PullComment()
    if not comment.file:
        path = entry_path(request.task, request.login)
        is_draft = not request.is_ranked
        comment = comment.with_file(FileFacts(path=path, head_sha=request.head_sha, is_draft=is_draft))
    if notice:
        comment = comment.with_notice(notice)
    whole = comment.with_board(section)
    return write(request.pull_request, whole, known, github, head_sha=request.head_sha, ours={request.id})


def remark(number: int, head_sha: str, text: str, github: GitHub) -> None:
    """Put a remark at the top of the comment, unless it is there, and below a remark on boards that were left out."""
    known = github.find_comment(number, MARKER)
    comment = read_comment(known.body) if known else PullComment()
    old = comment.notice
    left_out = old.left_out if old and old.head_sha == head_sha else ()
    if old and left_out:
        first, *_ = old.text.split("\n\n")
        text = f"{first}\n\n{text}"
    if not old or old.text != text:
        notice = Notice(text=text, tone=Tone.REMARK, head_sha=head_sha, left_out=left_out)
        write(number, comment.with_notice(notice), known, github, head_sha=head_sha, ours=())


def _put_check(check: Check, known: int | None, github: GitHub) -> None:
    if known:
        github.update_check(known, check)
    else:
        _tell_check(check, github)


def _tell_check(check: Check, github: GitHub) -> None:
    """Write the check run unless it is up to date: each update would add the same annotations again."""
    old = max(find_checks(check.head_sha, github, check.name), key=lambda one: one.id, default=None)
    if not old or (old.state, old.external_id) != (check.state, check.external_id):
        github.update_check(old.id, check) if old else github.create_check(check)


def find_checks(head_sha: str, github: GitHub, name: str = "") -> tuple[CheckRun, ...]:
    """A commit's check runs; none if the commit is gone."""
    try:
        return github.checks(head_sha, name)
    except GitHubError as error:
        if error.status == 404 or _is_of_no_commit(error):
            return ()
        raise


def _is_of_no_commit(error: GitHubError) -> bool:
    """Whether the commit is gone, for example after a force push: then it never accepts a check run."""
    return error.status == 422 and "No commit found" in str(error)


def write(
    number: int, comment: PullComment, known: Comment | None, github: GitHub, *, head_sha: str, ours: Collection[str]
) -> str:
    """Write the comment over the `known` one, until it has all boards that are done.

    Returns why it is shorter than it should be; usually empty.

    Args:
        ours: the ids of the requests that the writer reports on; for the commit's others, the check runs know more.
    """
    for _ in range(MAX_ROUNDS):
        known, refusal = _put(number, comment, known, github, ours)
        mended = _mended(comment, github, head_sha, ours)
        if mended == comment:
            break
        comment = mended
    return refusal


def _put(
    number: int, comment: PullComment, known: Comment | None, github: GitHub, ours: Collection[str]
) -> tuple[Comment, str]:
    """The comment as written, and why it is short; usually empty."""
    checks_url, refusal = f"{server_url()}/{github.repository}/pull/{number}/checks", ""
    everybodys = {one.facts.request for one in comment.boards}
    shorter = (comment.briefly(checks_url, requests) for requests in (ours, everybodys))
    *longer, shortest = dict.fromkeys(one.render() for one in (comment, *shorter))
    for text in longer:
        try:
            return _put_text(number, text, known, github), refusal
        except GitHubError as error:
            if error.status != 422:
                raise
            refusal = f"the comment lacks a report: {error}"
    return _put_text(number, shortest, known, github), refusal


def _put_text(number: int, text: str, known: Comment | None, github: GitHub) -> Comment:
    return github.upsert_comment(number, MARKER, text, known) if known else github.comment(number, text)


def _mended(comment: PullComment, github: GitHub, head_sha: str, ours: Collection[str]) -> PullComment:
    waiting = [one for one in comment.boards if one.facts.head_sha == head_sha and one.facts.state is BoardState.QUEUED]
    if not {one.facts.request for one in waiting}.difference(ours):
        return comment
    checks = {check.name: check for check in sorted(find_checks(head_sha, github), key=lambda one: one.id)}
    for section in waiting:
        if check := checks.get(workflow_runs.check_name(section.facts.gpu)):
            comment = comment.with_board(section_of_check(section, check))
    return comment
